"""Tests of other projects' suites that cannot pass against a live server, each with its reason.

A listed test that passes fails the run, and so does a name that no test has: the list stays true.
"""

import pytest


def expect_failures(config, items, listed):
    """Marks the tests that `listed` has by their reasons, such as
    "test_requests.py::test_request_url"."""
    reasons = {name: reason for reason, names in listed.items() for name in names}
    unknown = set(reasons)
    for item in items:
        # With its parameters, or with any.
        for name in (item.name, item.originalname):
            key = f"{item.path.name}::{name}"
            if key in reasons:
                unknown.discard(key)
                item.add_marker(pytest.mark.xfail(reason=reasons[key], strict=True))
                break
    if unknown and is_whole(config):
        raise pytest.UsageError(f"no test has these names: {', '.join(sorted(unknown))}")


def is_whole(config):
    """True if the run has all tests of the suite."""
    chosen = config.option.keyword or config.option.markexpr
    return not chosen and not any("::" in word or word.endswith(".py") for word in config.args)
