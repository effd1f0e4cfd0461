"""The lint of the hot path says no where it must, and the sources keep to it."""

import hot_path
from hot_path import offences


def test_formatting_is_found():
    for line, name in {
        "  const auto end = std::to_chars(at, end, value);": "to_chars",
        "  name += std::to_string(i);": "to_string",
        '  std::snprintf(text, sizeof text, "%d", i);': "snprintf",
        '  auto text = fmt::format("{}", i);': "fmt::",
        "  std::ostringstream out;": "ostringstream",
        "  const std::string text = device.str();": "device.str",
        "  PyObject* text = PyObject_Repr(value);": "PyObject_Repr",
    }.items():
        found = offences("a.cc", line, {})
        assert len(found) == 1, line
        assert found[0].startswith(f"a.cc:1: {name} on")


def test_other_text_passes():
    assert offences("a.cc", "  text.assign(name).append(other);  // not std::to_string(i)\n", {}) == []


def test_an_allowance_holds_for_its_text_and_must_be_needed():
    allowed = {"std::to_string(i++)": "once"}
    assert offences("a.cc", "f(std::to_string(i++));", allowed) == []
    assert len(offences("a.cc", "f(std::to_string(i++)), std::to_string(j);", allowed)) == 1
    assert offences("a.cc", "", allowed) == ["a.cc: no longer contains 'std::to_string(i++)', which hot_path.py allows"]


def test_the_sources_keep_to_it(capsys):
    assert hot_path.main() == 0, capsys.readouterr().out
