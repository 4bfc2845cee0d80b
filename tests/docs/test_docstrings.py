"""Every public name has a docstring with all its parameters and an example that runs (as a doctest)."""

import inspect
import re
from importlib import import_module

import pytest

MODULES = (
    ["stopwise"]
    + [f"stopwise.{name}" for name in ("models", "rules", "metrics", "datasets", "plots", "features")]
    + [f"stopwise.{name}" for name in ("tuning", "checks", "export", "spark")]
)


def public_names():
    seen = set()
    for module_name in MODULES:
        module = import_module(module_name)
        for name in module.__all__:
            thing = getattr(module, name)
            if (inspect.isclass(thing) or inspect.isfunction(thing)) and thing not in seen:
                seen.add(thing)
                yield pytest.param(thing, id=f"{module_name}.{name}")


def documented_parameters(doc):
    """Return the names in the section Parameters of a numpydoc docstring."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", doc, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^(\S.*)$", section.group(1), re.MULTILINE) if section else []
    return {name.strip().lstrip("*") for line in lines for name in line.split(",")}


@pytest.mark.parametrize("thing", list(public_names()))
def test_public_name_is_documented(thing):
    doc = inspect.getdoc(thing)
    assert doc, "no docstring"
    assert len(doc.splitlines()[0]) <= 110
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return
    parameters = {name for name in inspect.signature(thing).parameters if not name.startswith("_")}
    assert not parameters - documented_parameters(doc), "parameters without a description"
    assert ">>> " in doc, "no example"


def test_every_module_lists_its_public_names():
    for module_name in MODULES:
        module = import_module(module_name)
        missing = [name for name in module.__all__ if not hasattr(module, name)]
        assert not missing, (module_name, missing)
