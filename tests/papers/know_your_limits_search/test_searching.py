"""The search: the same trials for any number of workers, nothing lost, nothing overwritten."""

import csv
import json
import sys

import pytest
from click.testing import CliRunner

from nescio.cli.main import main
from nescio.core import NescioError
from nescio_papers import Settings, named, run_experiment
from nescio_papers.know_your_limits_search import hyper_parameters, searching
from nescio_papers.know_your_limits_search.hyper_parameters import PUBLISHED, STARTS, judge, table_1
from nescio_papers.know_your_limits_search.searching import random_search
from nescio_papers.know_your_limits_search.trial import (
    MODELS,
    Ranges,
    Task,
    draw,
    evaluate,
    objective,
)

TINY = Ranges(layers=(1, 2), widths=(4, 6))
LEDGER = "trials.jsonl"


def search(folder, model="plain", **options):
    defaults = {"workers": 1, "epochs": 1, "ranges": TINY}
    return random_search(model, folder, **{**defaults, **options})


def timeless(records):
    return [{k: v for k, v in r.items() if k != "seconds"} for r in records]


def snapshot(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("model", MODELS)
def test_parameters_lie_in_the_ranges_of_table_2(model):
    drawn = draw(model, Ranges(), trials=300, seed=0)
    assert {len(p["widths"]) for p in drawn} == {1, 2, 3, 4, 5}
    assert {width for p in drawn for width in p["widths"]} == {15, 20, 25}
    assert any(len(set(p["widths"])) == 3 for p in drawn)  # each layer by itself
    rates = sorted(p["learning_rate"] for p in drawn)
    assert 1e-4 <= rates[0] < 2e-4
    assert 0.05 < rates[-1] <= 0.1
    assert 1.5e-3 < rates[150] < 6e-3  # log-uniform: the middle is 10^-2.5
    if model == "bayes_by_backprop":
        assert all(1e-3 <= p["spread"] <= 0.3 and "dropout" not in p for p in drawn)
        assert all(0.1 <= p["prior_spread"] <= 10 for p in drawn)
    else:
        assert all(0 <= p["dropout"] <= 0.5 and "spread" not in p for p in drawn)
        assert 0.2 < sorted(p["dropout"] for p in drawn)[150] < 0.3
    if model in ("bayes_mixture", "bayes_released"):
        for name in ("prior_spread", "narrow"):
            assert all(0.449 < p[name] < 0.905 for p in drawn)
        assert all(0.1 <= p["share"] <= 0.9 and -8 <= p["rho"] <= -2 for p in drawn)
    if model == "bayes_released":
        assert all(p["anneal"] or p["beta"] == 1 for p in drawn)
        assert 100 < sum(p["anneal"] for p in drawn) < 200


def test_the_released_objective_weighs_the_divergence_by_the_training_points():
    prior = {"prior_spread": 0.6, "narrow": 0.9, "share": 0.2}
    assert objective("plain", {}).description == objective("mc_dropout", {}).description
    assert "weight=1.0" in objective("bayes_mixture", prior).description
    released = objective("bayes_released", {**prior, "anneal": True, "beta": 0.5}).description
    assert "narrow=0.9, share=0.2, weight=250.0" in released
    assert "ramp=0.4" in released
    steady = objective("bayes_released", {**prior, "anneal": False, "beta": 1.0}).description
    assert "weight=500.0" in steady
    assert "ramp" not in steady


def test_a_trial_has_the_same_parameters_however_many_there_are():
    few, many = (draw("plain", Ranges(), trials=n, seed=3) for n in (4, 40))
    assert few == many[:4]
    assert draw("plain", Ranges(), trials=4, seed=4) != few
    assert draw("mc_dropout", Ranges(), trials=4, seed=3) != few


def test_two_workers_find_what_one_finds(tmp_path):
    one = search(tmp_path / "one", trials=4)
    two = search(tmp_path / "two", trials=4, workers=2)
    assert timeless(two) == timeless(one)


@pytest.mark.parametrize("model", MODELS)
def test_a_trial_can_be_evaluated_again(model):
    """The predictor's own score: the mixture over passes for the two that are sampled."""
    (parameters,) = draw(model, TINY, trials=1, seed=0)
    task = Task(model=model, number=0, parameters=parameters, seed=0, epochs=2)
    first, second = evaluate(task), evaluate(task)
    assert timeless([first]) == timeless([second])
    assert first["nll"] > 0
    assert 0 <= first["accuracy"] <= 1
    assert first["epochs"] == 2
    assert first["error"] is None
    assert (first["information"] > 1e-9) == (model != "plain")  # released: hardly any


def test_a_training_that_breaks_down_is_a_record(tmp_path, monkeypatch):
    (parameters,) = draw("plain", TINY, trials=1, seed=0)
    record = evaluate(
        Task(
            model="plain",
            number=0,
            parameters={**parameters, "learning_rate": 1e30},
            seed=0,
            epochs=3,
        )
    )
    assert record["nll"] is None
    assert "NaN or infinite" in record["error"]
    monkeypatch.setattr(searching, "evaluate", lambda task: broken(task, 0))
    records = search(tmp_path, trials=3)
    assert [r["trial"] for r in records] == [1, 2, 0]
    assert records[-1]["nll"] is None


def broken(task, number):
    record = evaluate(task)
    return {**record, "nll": None} if task.number == number else record


def test_the_tables_hold_every_trial_best_first(tmp_path):
    records = search(tmp_path, model="bayes_by_backprop", trials=5)
    scores = [record["nll"] for record in records]
    assert scores == sorted(scores)
    assert sorted(record["trial"] for record in records) == list(range(5))
    saved = json.loads((tmp_path / "table.json").read_text())
    assert saved["trials"] == records
    assert saved["search"]["model"] == "bayes_by_backprop"
    assert saved["search"]["layers"] == [1, 2]
    with (tmp_path / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["nll"]) for row in rows] == scores
    first, parameters = rows[0], records[0]["parameters"]
    assert first["widths"].split() == list(map(str, parameters["widths"]))
    assert int(first["layers"]) == len(parameters["widths"])
    for name in ("learning_rate", "spread", "prior_spread"):
        assert float(first[name]) == parameters[name]
    assert {"trial", "accuracy", "epochs", "seconds"} <= set(first)


@pytest.fixture
def counted(monkeypatch):
    """The numbers of the trials that are evaluated."""
    numbers = []

    def counting(task):
        numbers.append(task.number)
        return evaluate(task)

    monkeypatch.setattr(searching, "evaluate", counting)
    return numbers


def test_a_stopped_search_runs_only_what_is_missing(tmp_path, counted):
    search(tmp_path / "a", trials=3)
    more = search(tmp_path / "a", trials=6)
    assert counted == [0, 1, 2, 3, 4, 5]
    assert timeless(search(tmp_path / "b", trials=6)) == timeless(more)
    counted.clear()
    assert search(tmp_path / "a", trials=6) == more
    assert counted == []


def test_a_line_torn_by_a_kill_is_run_again(tmp_path, counted):
    whole = search(tmp_path, trials=3)
    ledger = tmp_path / LEDGER
    ledger.write_bytes(ledger.read_bytes()[:-9])
    counted.clear()
    assert timeless(search(tmp_path, trials=4))[:1] == timeless(whole)[:1]
    assert counted == [2, 3]
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert [line["trial"] for line in lines] == [0, 1, 2, 3]


def test_finished_trials_are_on_disk_when_the_next_one_fails(tmp_path, monkeypatch):
    def failing(task):
        if task.number == 2:
            raise KeyboardInterrupt
        return evaluate(task)

    with monkeypatch.context() as patch:
        patch.setattr(searching, "evaluate", failing)
        with pytest.raises(KeyboardInterrupt):
            search(tmp_path, trials=4)
    assert len((tmp_path / LEDGER).read_text().splitlines()) == 2
    assert len(search(tmp_path, trials=4)) == 4


def test_a_damaged_ledger_is_said_to_be_damaged(tmp_path):
    search(tmp_path, trials=2)
    ledger = tmp_path / LEDGER
    ledger.write_text("nonsense\n" + ledger.read_text())
    with pytest.raises(NescioError, match=r"trials\.jsonl is damaged"):
        search(tmp_path, trials=3)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"model": "mc_dropout"}, "model: plain, not mc_dropout"),
        ({"seed": 1}, "seed: 0, not 1"),
        ({"epochs": 2}, "epochs: 1, not 2"),
        ({"ranges": Ranges(layers=(1, 3), widths=(4, 6))}, r"layers: \[1, 2\], not \[1, 3\]"),
    ],
)
def test_a_folder_with_another_search_is_refused_and_left_as_it_is(tmp_path, other, said):
    search(tmp_path, trials=1)
    before = snapshot(tmp_path)
    with pytest.raises(NescioError, match=f"holds another search .{said}.; choose another"):
        search(tmp_path, trials=2, **other)
    assert snapshot(tmp_path) == before


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "experiment.json").write_text("{}")
    with pytest.raises(NescioError, match="holds other files; choose a new folder"):
        search(tmp_path, trials=1)
    assert list(snapshot(tmp_path)) == ["experiment.json"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "plane"}, "unknown model 'plane'; did you mean 'plain'"),
        ({"trials": 0}, "trials must be at least 1, got 0"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"epochs": -1}, "epochs must be at least 1, got -1"),
    ],
)
def test_wrong_calls_make_nothing(tmp_path, options, said):
    with pytest.raises(NescioError, match=said):
        search(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("wrong", [{"layers": (3, 1)}, {"learning_rate": (0.0, 1.0)}])
def test_ranges_rise_and_are_positive(wrong):
    with pytest.raises(NescioError, match="must be positive and rise"):
        Ranges(**wrong)


def test_without_optuna_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(NescioError, match=r"pip install nescio\[search\]"):
        search(tmp_path / "out", trials=1)
    assert not (tmp_path / "out").exists()


def test_the_command(tmp_path):
    words = ["search", "plain", "--out", str(tmp_path), "--trials", "2", "--workers", "1"]
    more = ["--epochs", "1", "--layers", "1", "1"]
    result = CliRunner().invoke(main, [*words, *more])
    assert result.exit_code == 0, result.output
    assert "2 trials, the best:" in result.output
    assert str(tmp_path / "table.csv") in result.output
    other = CliRunner().invoke(main, words)
    assert other.exit_code == 1
    assert "holds another search" in other.output


def test_the_quick_experiment_compares_with_table_1(tmp_path, counted, monkeypatch):
    monkeypatch.setattr(hyper_parameters, "EPOCHS", 4)
    experiment = named("know-your-limits-search")
    text = run_experiment(experiment, tmp_path, settings=Settings(quick=True)).read_text()
    text += (tmp_path / "search.md").read_text()  # the long tables
    assert counted == [*range(2)] * len(MODELS)
    for name in ("plain network", "MC dropout"):
        for row in ("hidden layers", "dropout", "learning rate", "NLL on fresh points"):
            assert f"| {name}: {row} |" in text
    assert "| 0.01455 |" in text
    assert "suitable configuration even after extensive search" in text
    assert "Bayes-by-backprop, as released" in text
    assert (tmp_path / "search.png").stat().st_size > 10_000
    numbers = json.loads((tmp_path / "search.json").read_text())["numbers"]
    assert numbers["trials"] == dict.fromkeys(MODELS, 2)
    assert (tmp_path / "search" / "plain" / "table.csv").exists()
    (tmp_path / "search.json").unlink()  # killed before the part was done
    run_experiment(experiment, tmp_path, settings=Settings(quick=True))
    assert len(counted) == 2 * len(MODELS)


def record(nll, accuracy, **parameters):
    given = {"widths": [4], "learning_rate": 0.01, **parameters}
    return {"trial": 0, "parameters": given, "nll": nll, "accuracy": accuracy, "seconds": 1.0}


def test_verdicts_follow_from_the_scores_of_fresh_starts(monkeypatch):
    accuracy = {"bayes_released": 0.6, "bayes_mixture": 0.985}

    def scores(model, parameters, *, starts, **_):
        bad = parameters == PUBLISHED.get(model)
        found = {"nll": 0.3 if bad else 0.1, "information": 0.2}
        return [found | {"accuracy": accuracy.get(model, 0.99) - 1e-4 * i} for i in starts]

    monkeypatch.setattr(hyper_parameters, "scores", scores)
    monkeypatch.setattr(hyper_parameters, "STARTS", (0, 1, 2))
    dropout, spreads = {"dropout": 0.1}, {"spread": 0.1, "prior_spread": 1.0}
    results = {model: [record(0.1, 0.99, **dropout)] for model in MODELS}
    results["bayes_by_backprop"] = [
        record(0.2, 0.99, **spreads), record(0.3, 0.9799, **spreads), record(0.4, None, **spreads)
    ]  # fmt: skip
    found = table_1(results, seed=0)
    assert found.numbers["within a point of plain"] == dict.fromkeys(MODELS, 1)
    assert found.claims == ()  # judged from the numbers
    *best, bayes = judge(json.loads(json.dumps(found.numbers)))
    assert [claim.verdict for claim in best] == ["does not hold"] * 2
    assert bayes.verdict == "holds in part"  # as released it fails, with the bound it does not
    assert [fact.verdict for fact in bayes.facts] == ["holds", "does not hold"]
    assert "Bayes-by-backprop 1 of 3" in bayes.note
    accuracy["bayes_mixture"] = 0.6
    assert judge(table_1(results, seed=0).numbers)[-1].verdict == "holds"
    older = judge({"best": {}})  # stored before there were intervals
    assert [claim.sentence for claim in older] == [claim.sentence for claim in [*best, bayes]]
    assert {claim.verdict for claim in older} == {"open"}
    assert all("not measured" in str(fact) for claim in older for fact in claim.facts)
    assert len(STARTS) == 10
