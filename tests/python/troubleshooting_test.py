"""docs/guides/troubleshooting.md has every warning, every reason in one, and the errors of a
program without a mistake of its author; and no text that the code lacks."""

import re

import messages
import pytest
from messages import HOLE, Message, collapsed, literal_length

PAGE = messages.ROOT / "docs" / "guides" / "troubleshooting.md"

ENOUGH = 60  # literal characters by which a message is recognised, or all it has
ENOUGH_OF_ERROR = 30  # in a table

# These errors state themselves what an argument must be, or are Keras's reasons.
SLIPS = {"TypeError", "ValueError", "AttributeError", "CannotTraceError", "InternalError"}

# ValueErrors and InvalidArgumentErrors here are about files, feeds and graphs.
NO_SLIPS = (
    "tensorbow/data/__init__.py",
    *(f"{folder}/" for folder in (*messages.RUNS, *messages.GRAPHS)),
)

# Errors that need no entry, by their beginning, and the reason.
WITHOUT_ENTRY = {
    "Attempted to use a closed Session.": "TensorFlow's words",
    "The Session graph is empty.": "TensorFlow's words",
    "Session has been closed.": "TensorFlow's words",
    "Run call was cancelled": "TensorFlow's words",
    "Timed out waiting for notification": "TensorFlow's words",
    "Attempting to use uninitialized": "TensorFlow's words",
    "libsvm: got no paths": "a slip",
    "wanted numbers from 1 as in 2,4,8": "a slip",
    "Got a cluster without hosts": "Cluster has refused it",
    "it has been started again": "follows 'does not answer'",
    "it cannot be asked": "TensorFlow knows every address that it is given",
    "The session has been deleted": "no Python object is left to say it",
    "The iteration is discarded because another learner's task failed": "the other's is raised",
    "…: node '…' is not in the graph": "the stock session says it first",
    "…an operation… '…' …": "reasons of row types, of which the page has those that are common",
    "rows of such a type on a later axis": "resources and variants cannot be fetched",
    "No learning run has reached a variable": "Python reads the session's variable then",
    "The saved replicas of '…' do not fit": "a damaged file has a checksum before that",
    "The saved state is of … learners": "a damaged file has a checksum before that",
    "The saved state has a central value of": "a damaged file has a checksum before that",
    "The saved state has replicas of an unknown": "a damaged file has a checksum before that",
    "The saved state has a value of '…' that is of": "a damaged file has a checksum before that",
    "The saved sizes of batches make no sense": "a damaged file has a checksum before that",
    "there is no memory for a copy of": "a task is executed op by op then",
    "variable '…' is of type …, which has no fixed size": "a task is executed op by op then",
    "the task changes the shape of variable '…'": "a task is executed op by op then",
    "No page-locked memory for a fetched tensor": "of the host's memory nothing is left",
    "No memory for a constant": "the tensors before it fail",
    "… does not have the same size in all learners": "an assertion",
    "… (…) works on a learner only": "an assertion",
    "… is executed outside a learning run": "an assertion",
    "No variable has been offered as number": "an assertion",
    "TensorBowReserveRandom got a device": "an assertion",
    "Got a gradient of shape … for indices": "TensorFlow's gradients fit",
}


def entries() -> list[str]:
    """Returns the page's quotations: quoted paragraphs, and the first cells of its tables."""
    text = PAGE.read_text()
    quotes = re.findall(r"(?:^> .*\n)+", text, re.M)
    found = [collapsed(quote.replace("\n> ", " ").removeprefix("> ")) for quote in quotes]
    return found + [collapsed(cell) for cell in re.findall(r"^\| `([^`]*)` \|", text, re.M)]


def _pattern(text: str) -> str:
    return ".*".join(re.escape(part) for part in text.split(HOLE))


def is_of(entry: str, message: Message) -> bool:
    """Returns whether an entry is about a message: one is the other's beginning, holes apart."""
    wanted = ENOUGH if message.kind == "warning" else ENOUGH_OF_ERROR
    if literal_length(entry) < min(wanted, literal_length(message.text)):
        return False
    if re.match(_pattern(entry.rstrip(f".{HOLE}")), message.text, re.S):
        return True
    # A message whose beginning is composed elsewhere.
    longer = literal_length(message.text) >= ENOUGH_OF_ERROR
    return longer and re.match(_pattern(message.text), entry, re.S) is not None


def lacking(found: list[Message]) -> str:
    """Returns the messages that have no entry, a line each."""
    known = entries()
    return "\n".join(
        f"{message.where}: {message.text}"
        for message in found
        if not any(is_of(entry, message) for entry in known)
    )


def wants_entry(error: Message) -> bool:
    """Returns whether an error is one that people meet."""
    if any(error.text.startswith(begin) for begin in WITHOUT_ENTRY):
        return False
    if error.text.startswith("TF_CONFIG"):
        return True
    if error.kind in SLIPS or error.kind == "InvalidArgumentError":
        about = error.where.startswith(NO_SLIPS) and error.kind != "InternalError"
        return about and " must " not in error.text
    return True


def test_every_warning_has_an_entry():
    found = messages.all_warnings()
    assert len(found) >= 20
    assert lacking(found) == ""


def test_every_reason_has_an_entry():
    found = messages.all_reasons()
    assert len(found) >= 20
    assert lacking(found) == ""


def test_every_error_that_people_meet_has_an_entry():
    found = [error for error in messages.all_errors() if wants_entry(error)]
    assert len(found) >= 60
    assert lacking(found) == ""


def test_no_entry_is_stale():
    found = messages.all_warnings() + messages.all_reasons() + messages.all_errors()
    found += messages.row_reasons()
    stale = [e for e in entries() if not any(is_of(e, message) for message in found)]
    assert stale == []


def test_no_exemption_is_stale():
    texts = [error.text for error in messages.all_errors()]
    assert [b for b in WITHOUT_ENTRY if not any(t.startswith(b) for t in texts)] == []


# ------------------------------------------------------------------ the search for messages


def test_new_warnings_are_found():
    python = 'warnings.warn(f"Odd: {x} is " "odd, wanted even", TensorBowWarning)'
    (found,) = messages.python_warnings(python)
    assert found.text == "Odd: … is odd, wanted even"
    (found,) = messages.cc_warnings(
        'state_.warn()(absl::StrCat("Odd: ", x, " is odd, "\n "wanted even"));'
    )
    assert found.text == "Odd: … is odd, wanted even"
    (found,) = messages.cc_warnings('LOG(WARNING) << "Odd: " << x;')
    assert found.text == "Odd: …"
    assert lacking([Message("here", "warning", found.text)]) == f"here: {found.text}"


def test_what_is_handed_on_is_no_text_of_its_own():
    python = "for text in native.take_warnings():\n  warnings.warn(text, TensorBowWarning)"
    assert list(messages.python_warnings(python)) == []
    assert list(messages.cc_warnings("Warn(text);")) == []


@pytest.mark.parametrize("source", ["warnings.warn(made(), TensorBowWarning)"])
def test_a_warning_that_cannot_be_read_is_an_error(source):
    with pytest.raises(AssertionError, match="no text"):
        list(messages.python_warnings(source))
    with pytest.raises(AssertionError, match="no text"):
        list(messages.cc_warnings("state_.warn()(made);"))
