"""A watch over a service's decisions: restarts, replicas, labels, alarms."""

import json
import math
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
import torch

import nescio
from nescio.monitoring import merge, monitor
from nescio.serving.decision_log import Action, Entry, Label, open_log
from nescio.serving.server import wait_days
from nescio.serving.watch import Watch
from nescio.serving.watch_pages import watch_page
from nescio.serving.watch_settings import DAY, WatchSettings

NAMES = ("name", "v1")


@pytest.fixture(scope="module")
def guard():
    """Of three classes, from recorded logits."""
    torch.manual_seed(0)
    labels = torch.arange(600) % 3
    logits = torch.randn(600, 3) + 4 * torch.nn.functional.one_hot(labels, 3)
    seen = nescio.Activations(logits=logits, labels=labels)
    return nescio.guard(None, seen, detector=nescio.detectors.energy(), risk=0.2)


def entries(count, *, start=0, seed=0, move=0.0, replica="0", picked=None, budget=0.05):
    """Decisions: answers with a probability, some abstained, some without a score."""
    rng = np.random.default_rng([seed, start])
    made = []
    for i in range(start, start + count):
        answered = rng.random() < 0.9
        draw = rng.random() < budget if picked is None else picked
        score = float(np.float32(rng.normal(move, 1)))
        made.append(
            Entry(
                id=f"{replica}-{i:06d}", time=1000.0 + i, replica=replica, guard=NAMES[0],
                version=NAMES[1], digest="", decision="answer" if answered else "ood",
                label=str(i % 3), probability=float(np.float32(0.99)), p_value=0.5,
                score=None if i % 97 == 5 else score, failure_score=0.1, rule="", in_range=True,
                set=None, more=None, picked=not answered or draw,
                propensity=budget if answered else 1.0,
            )
        )  # fmt: skip
    return made


def watch_of(log, guard, fresh=False, **settings):
    return Watch(log, *NAMES, guard, WatchSettings(**settings), fresh=fresh)


def write(log, watch, made):
    log.write(made)
    watch.add(made)


def label_all(log, *, wrong=lambda one: False, time=5000.0):
    labels = [
        Label(
            decision=one.id, reviewer="anna", kind="label", time=time,
            label="other" if wrong(one) else one.label,
        )
        for one in log.decisions(decision="answer", picked=True)
    ]  # fmt: skip
    log.add_labels(labels)


def same(one, two):
    assert (one.counts == two.counts).all()
    assert (one.logs == two.logs).all()
    assert (one.pending == two.pending).all()
    assert (one.log_martingale, one.count, one.trail) == (two.log_martingale, two.count, two.trail)


def test_a_restart_changes_no_bit(tmp_path, guard):
    whole = monitor(guard).update(
        [
            math.inf if one.score is None else one.score
            for one in entries(700) + entries(500, start=700)
        ]
    )
    with open_log(tmp_path / "log.db") as log:
        watch = watch_of(log, guard)
        write(log, watch, entries(300))
        watch.save()
        write(log, watch, entries(700)[300:])  # not saved: the process is killed
        second = watch_of(log, guard)
        same(second.drift, watch.drift)
        write(log, second, entries(500, start=700))
        same(second.drift, whole)
        third = watch_of(log, guard, fresh=True)
        same(third.drift, whole)
        assert third._accuracy.sums.expected == second._accuracy.sums.expected


def test_replicas_are_merged(tmp_path, guard):
    with open_log(tmp_path / "log.db") as log:
        watches = [watch_of(log, guard, replica=f"{i}/2", save_seconds=1e-9) for i in range(2)]
        for i, watch in enumerate(watches):
            write(log, watch, entries(300, seed=i, replica=f"{i}/2"))
            watch.tick(2000.0)
        watches[0].tick(2000.0)
        merged = watches[0].merged_drift
        expected = merge([one.drift for one in watches])
        assert merged.log_martingale == expected.log_martingale
        assert watches[0].status()["drift"]["replicas"] == 2
        assert watches[0].status()["drift"]["decisions"] == 600


def test_replicas_share_postgresql(postgresql_url, guard):
    with ExitStack() as stack:
        logs = [stack.enter_context(open_log(postgresql_url)) for _ in range(2)]
        own = [{"replica": f"{i}/2", "save_seconds": 1e-9} for i in range(2)]
        watches = [watch_of(log, guard, **one) for log, one in zip(logs, own, strict=True)]
        for i, (log, watch) in enumerate(zip(logs, watches, strict=True)):
            write(log, watch, entries(300, seed=i, replica=f"{i}/2"))
        label_all(logs[0])
        for watch in (*watches, *watches):
            watch.tick(6000.0)
        statuses = [watch.status() for watch in watches]
        answers = logs[0].counts()["answer"]
        for status in statuses:
            assert status["drift"]["decisions"] == 600
            assert status["risk"]["answers"] == answers
        again = watch_of(logs[0], guard, **own[0])
        same(again.drift, watches[0].drift)
        assert (again.risk.lower, again.risk.upper) == (
            watches[0].risk.lower,
            watches[0].risk.upper,
        )


def test_replicas_of_other_settings_are_named_and_not_merged(tmp_path, guard):
    with open_log(tmp_path / "log.db") as log:
        for i, budget in ((1, 0.5), (0, 0.05)):
            own = {"replica": f"{i}/2", "budget": budget, "save_seconds": 1e-9}
            watch = watch_of(log, guard, **own)
            write(log, watch, entries(50, seed=i, replica=f"{i}/2", picked=True, budget=0.5))
            label_all(log)
            watch.tick(6000.0)
        risk = watch.status()["risk"]
        assert risk["answers"] == watch.risk.count > 0
        assert risk["not_merged"] == 1
        assert "replica 1/2 has --sample 0.5 (at most" in risk["words"]
        assert not risk["alarm"]


def test_the_alarm_of_another_replica_is_its_own(tmp_path, guard):
    with open_log(tmp_path / "log.db") as log:
        first, second = (watch_of(log, guard, replica=name) for name in ("a", "b"))
        write(log, first, entries(600, move=8.0, replica="a"))
        first.tick(2000.0)
        second.tick(2000.0)
        words = second.status()["drift"]["words"]
        assert words.startswith("No alarm in 0 decisions.")
        assert "Replica a raised an alarm on 20" in words
        assert "raised" not in first.status()["drift"]["words"]
        page = watch_page([second])
        assert "<strong>Drift</strong>, replica a, 20" in page
        assert ">0 decisions<" in page
        write(log, second, entries(1, replica="b"))
        assert ">1 decision<" in watch_page([second])
        assert "No alarm in 1 decision." in second.status()["drift"]["words"]


def test_the_risk_follows_labels_in_order(tmp_path, guard):
    with open_log(tmp_path / "log.db") as log:
        watch = watch_of(log, guard)
        write(log, watch, entries(400))
        watch.tick(2000.0)
        first = next(i for i, one in enumerate(log.decisions(decision="answer")) if one.picked)
        assert watch.risk.count == first
        assert watch.risk.labels == 0
        assert watch.status()["risk"]["waiting_for"] is not None
        label_all(log, wrong=lambda one: int(one.id[-2:]) % 2)
        watch.tick(6000.0)
        answers = list(log.decisions(decision="answer"))
        assert watch.risk.count == len(answers)
        assert watch.risk.labels == sum(one.picked for one in answers)
        offline = watch_of(log, guard, fresh=True)
        offline.tick(7000.0)
        assert (offline.risk.sums.upper == watch.risk.sums.upper).all()
        assert offline.risk.late.tolist() == watch.risk.late.tolist()
        again = watch_of(log, guard)
        assert again.risk.count == 0  # nothing was saved: it is followed again
        again.labeled.seq = 0
        again.tick(7000.0)
        assert again.risk.sums.weighted == watch.risk.sums.weighted


def test_labels_that_do_not_come_count_as_the_worst(tmp_path, guard):
    with open_log(tmp_path / "log.db") as log:
        watch = watch_of(log, guard, wait_days=1.0)
        write(log, watch, entries(100))
        watch.tick(1000.0 + DAY)
        assert watch.risk.missing == 0
        watch.tick(2000.0 + DAY)
        picked = list(log.decisions(decision="answer", picked=True))
        assert watch.risk.missing == len(picked) > 0
        late = [Label(decision=picked[0].id, reviewer="a", kind="none", label=None, time=9e9)]
        log.add_labels(late)
        offline = watch_of(log, guard, fresh=True, wait_days=1.0)
        offline.tick(9e9 + 1)
        assert offline.risk.missing == len(picked)  # the label came too late, there too


def test_skips_wait_and_none_is_an_error(tmp_path, guard):
    with open_log(tmp_path / "log.db") as log:
        watch = watch_of(log, guard)
        write(log, watch, entries(3, picked=True))
        ids = [one.id for one in log.decisions(decision="answer")]
        log.add_labels([Label(decision=ids[0], reviewer="a", kind="skip", label=None, time=1.0)])
        watch.tick(2000.0)
        assert watch.risk.count == 0
        log.add_labels([Label(decision=ids[0], reviewer="b", kind="none", label=None, time=2.0)])
        watch.tick(2000.0)
        assert watch.risk.count == 1
        assert watch.risk.estimate == 1.0


def test_alarms_are_recorded_once(tmp_path, guard):
    with open_log(tmp_path / "log.db") as log:
        watch = watch_of(log, guard)
        write(log, watch, entries(600, move=8.0))
        label_all(log, wrong=lambda one: True)
        watch.tick(6000.0)
        watch.tick(6000.0)
        watch.save()
        assert {one["kind"] for one in watch.status()["alarms"]} == {"drift", "risk"}
        watch_of(log, guard).tick(6000.0)
        recorded = [one for _, one in log.actions() if one.what == "alarm"]
        assert len(recorded) == 2
        assert all("ALARM" in json.loads(one.details)["words"] for one in recorded)
        status = watch.status()
        assert status["accuracy"]["contradicted"]
        assert not status["accuracy"]["trusted"]
        json.dumps(status, allow_nan=False)


def test_status_without_decisions_is_json(tmp_path, guard):
    with open_log(tmp_path / "log.db") as log:
        watch = watch_of(log, guard)
        watch.tick()
        json.dumps(watch.status(), allow_nan=False)
        assert watch.status()["alarms"] == []


def test_picks_keep_to_the_budget(tmp_path, guard):
    with open_log(tmp_path / "log.db") as log:
        settings = WatchSettings(budget=0.1)
        watch = Watch(log, *NAMES, guard, settings, draws=np.random.default_rng(0))
        rng = np.random.default_rng(1)
        n = 20_000
        columns = {
            "decision": np.where(rng.random(n) < 0.1, "ood", "answer"),
            "probability": (1 - 0.02 * rng.random(n)).astype(np.float32),
        }
        picked, propensity = watch.picks(columns)
        answered = columns["decision"] == "answer"
        assert (propensity[~answered] == 1).all()
        assert picked[~answered].all()
        assert propensity[answered].mean() == pytest.approx(0.1, rel=0.03)
        assert picked[answered].mean() == pytest.approx(0.1, abs=0.01)
        assert propensity.min() >= watch.risk.least
        only = watch.picks({"decision": np.array(["answer"])})
        assert 0 < only[1][0] < 1


def test_a_thread_looks_at_the_log_until_the_end(tmp_path, guard):
    log = open_log(tmp_path / "log.db")
    watch = watch_of(log, guard).start()
    write(log, watch, entries(50))
    watch.close()
    assert log.state("watch/name/v1/stream/0")[0] == 50
    log.close()


def test_settings_are_checked():
    assert WatchSettings(replica="2/4").shard == (2, 4)
    assert WatchSettings(replica="web").shard == (0, 1)
    for wrong in ({"replica": "4/4"}, {"webhook": "file:///etc/passwd"}, {"risk": 0.0},
                  {"wait_days": 0.0}, {"false_alarm": 1.0}):  # fmt: skip
        with pytest.raises(nescio.NescioError):
            WatchSettings(**wrong)


def test_foreign_actions_are_not_alarms(tmp_path, guard):
    with open_log(tmp_path / "log.db") as log:
        log.record(Action(time=1.0, who="a", role="admin", what="load", about="x", details="{}"))
        assert watch_of(log, guard).status()["alarms"] == []


def test_an_alarm_is_sent_by_one_replica_and_once(tmp_path, guard):
    with open_log(tmp_path / "log.db") as log:
        hook = {"webhook": "http://127.0.0.1:1/"}
        watches = [watch_of(log, guard, replica=f"{i}/2", **hook) for i in range(2)]
        sent = []
        for watch in watches:
            watch._webhook.send = sent.append
        write(log, watches[0], entries(600, move=8.0, replica="0/2"))
        for watch in (*watches, *watches):
            watch.tick(6000.0)
        assert [one["kind"] for one in sent] == ["drift"]
        assert sent[0]["replica"] == "0/2"
        watches[0].alarms.sent(sent[0], True)
        again = watch_of(log, guard, replica="0/2", **hook)
        again._webhook.send = sent.append
        again.tick(6000.0)
        assert len(sent) == 1


def test_no_answer_is_deleted_before_its_label_is_missing():
    assert wait_days(None) == wait_days(365.0) == WatchSettings().wait_days
    assert wait_days(7.0) < 7.0
    WatchSettings(wait_days=wait_days(0.0))


def test_the_secret_is_not_shown():
    assert "hidden" not in repr(WatchSettings(webhook_secret="hidden"))


def test_scores_that_are_refused_do_not_pile_up(tmp_path, guard, monkeypatch):
    with open_log(tmp_path / "log.db") as log:
        watch = watch_of(log, guard)
        watch._drift = None
        monkeypatch.setattr(type(watch._accuracy), "update", lambda *_: 1 / 0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                watch.add(entries(300))
        assert len(watch._scores) == len(watch._probabilities) == 0


def test_probabilities_that_were_rounded_above_one_stop_nothing(tmp_path, guard):
    with open_log(tmp_path / "log.db") as log:
        watch = watch_of(log, guard)
        above = [replace(one, probability=1 + 1e-7) for one in entries(300)]
        write(log, watch, above)
        label_all(log)
        watch.tick(6000.0)
        answers = sum(one.decision == "answer" for one in above)
        assert watch.risk.count == watch.status()["accuracy"]["answers"] == answers
