"""Progress is drawn on a terminal or when asked for, and is silent elsewhere."""

import sys

import pytest

from nescio.core.running import progress


def refuse():
    raise AssertionError("a note was made though nothing is shown")


@pytest.mark.parametrize("show", [False, None])  # None: stderr is no terminal in tests
def test_silent_progress_makes_no_notes(show, capsys):
    with progress(3, "training", show=show) as advance:
        advance(1, refuse)
    assert capsys.readouterr() == ("", "")


def test_shown_progress_draws_label_count_and_note_on_stderr(capsys):
    with progress(3, "training", show=True) as advance:
        advance(2, lambda: "loss 0.5")
        advance(1, lambda: "loss 0.25")
    out, err = capsys.readouterr()
    assert out == ""
    assert "training" in err
    assert "3/3" in err
    assert "loss 0.25" in err


def test_a_terminal_decides_by_default(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(1, "training") as advance:
        advance(1, lambda: "done")
    assert "training" in capsys.readouterr().err


def test_errors_pass_through():
    with pytest.raises(KeyboardInterrupt), progress(3, "training", show=True):
        raise KeyboardInterrupt


def test_a_bar_within_a_bar_shares_its_display_and_goes(capsys):
    with progress(2, "parts", show=True) as outer:
        with progress(3, "training", show=True) as inner:
            inner(3, lambda: "loss 0.5")
        outer(2, str)
    with progress(1, "again", show=True) as advance:
        advance(1, str)
    err = capsys.readouterr().err
    first, second = err.split("again")[0], err.split("again")[-1]
    assert "2/2" in first
    assert "training" not in second
    assert "parts" not in second
