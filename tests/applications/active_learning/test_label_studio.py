"""Label Studio's JSON: out with predictions, back with annotations; what is wrong is named."""

import json
from xml.etree import ElementTree

import pytest

from nescio import NescioError
from nescio.applications.active_learning import (
    LabelQuestion,
    label_studio_config,
    label_studio_tasks,
    read_label_studio,
)

QUESTIONS = [
    LabelQuestion(id="a.png", guess="cat", confidence=0.6, why="members disagree"),
    LabelQuestion(id="b.png", guess="dog", confidence=0.9, label="cat"),
    LabelQuestion(id="c.png", row={"age": "3"}),
]


def tasks(pictures=None):
    return label_studio_tasks(QUESTIONS, pool="/p", model_version="20 labels", pictures=pictures)


def annotation(*choices, **more):
    value = {"choices": list(choices)}
    result = [{"from_name": "label", "to_name": "item", "type": "choices", "value": value}]
    return {"id": 7, "was_cancelled": False, "result": result if choices else [], **more}


def read(tmp_path, *given):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(list(given)))
    return read_label_studio(path)


def task(name, *annotations):
    return {"id": 1, "data": {"id": name, "pool": "/p"}, "annotations": list(annotations)}


def test_tasks_have_the_documented_fields():
    first, second, third = tasks({q.id: f"http://x/{q.id}" for q in QUESTIONS})
    assert first["data"]["image"] == "http://x/a.png"
    assert first["data"]["id"] == "a.png"
    (prediction,) = first["predictions"]
    assert prediction["model_version"] == "20 labels"
    assert prediction["score"] == 0.6
    (result,) = prediction["result"]
    assert result == {
        "from_name": "label",
        "to_name": "item",
        "type": "choices",
        "value": {"choices": ["cat"]},
    }
    assert first["annotations"] == []
    assert third["predictions"] == []
    assert second["annotations"][0]["result"][0]["value"] == {"choices": ["cat"]}
    assert tasks()[2]["data"]["text"] == "age: 3"


def test_the_interface_names_what_the_tasks_name():
    root = ElementTree.fromstring(label_studio_config(["cat", 'a "b" & <c>'], pictures=True))
    shown, choices = root
    assert shown.tag == "Image"
    assert shown.get("value") == "$image"
    assert choices.get("toName") == shown.get("name") == "item"
    assert choices.get("name") == "label"
    assert [one.get("value") for one in choices] == ["cat", 'a "b" & <c>']
    assert ElementTree.fromstring(label_studio_config(["0"], pictures=False))[0].tag == "Text"


def test_what_goes_out_comes_back(tmp_path):
    found = read(tmp_path, *tasks())
    assert found.pairs == (("b.png", "cat"),)
    assert found.blank == ("a.png", "c.png")
    assert found.pool == "/p"


def test_skipped_and_empty_annotations_are_not_answers(tmp_path):
    skipped = annotation("cat", was_cancelled=True)
    found = read(
        tmp_path,
        task("a", skipped),
        task("b", skipped, annotation("dog")),
        task("c", annotation()),
        task(4, annotation("dog"), annotation("dog")),
    )
    assert found.pairs == (("b", "dog"), ("4", "dog"))
    assert found.blank == ("a", "c")


def test_annotations_that_differ_are_listed_unless_one_is_the_truth(tmp_path):
    both = annotation("cat"), annotation("dog")
    with pytest.raises(NescioError, match=r"2 task\(s\) .* differ: 'a': cat, dog; 'b': cat, dog"):
        read(tmp_path, task("a", *both), task("b", *both), task("c", annotation("cat")))
    found = read(tmp_path, task("a", *both, annotation("cat", ground_truth=True)))
    assert found.pairs == (("a", "cat"),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"image": "x", "choice": "cat"}, "not as JSON-MIN"),
        ({"id": 3, "data": {"image": "x"}}, "task 3 .* has no `id`"),
        (task("a", annotation("cat", "dog")), "has 2 choices, cat, dog"),
        (task("a", {"result": [{"type": "rectanglelabels"}]}), "has rectanglelabels and no choi"),
        (task("a", {"result": "cat"}), "must be a list"),
        ({"data": {"id": "a"}, "annotations": "cat"}, "must be a list of objects"),
    ],
)
def test_other_json_is_refused(tmp_path, given, said):
    with pytest.raises(NescioError, match=said):
        read(tmp_path, given)


def test_files_that_are_no_json_are_refused(tmp_path):
    (tmp_path / "a.json").write_text("id,label\n1,cat\n")
    with pytest.raises(NescioError, match="expected JSON of Label Studio"):
        read_label_studio(tmp_path / "a.json")
    with pytest.raises(NescioError, match="no file"):
        read_label_studio(tmp_path / "b.json")
