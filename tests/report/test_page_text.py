"""Names on the page are short, harmless, and keep the numbers beside them in their places."""

from nescio.report.html_table import escaped
from nescio.report.page_text import readable


def test_long_names_are_cut_in_the_middle():
    assert readable("a" * 100) == "a" * 100
    assert readable(f"on {'a' * 3000}z: 5 %") == f"on {'a' * 60}…{'a' * 18}z: 5 %"


def test_right_to_left_names_are_set_apart():
    name = "\u05e2\u05d1\u05e8 \u05d9\u05ea"
    assert readable(f"24.3 % on {name}; 5 %") == f"24.3 % on \u2068{name}\u2069; 5 %"
    assert readable("plain, 5 %") == "plain, 5 %"


def test_marks_of_a_name_turn_nothing_around():
    assert readable("a\u202eb\u2066c") == "a?b?c"
    assert escaped("<b>\u202e</b>\n5 %") == "&lt;b&gt;?&lt;/b&gt; 5\N{NO-BREAK SPACE}%"
