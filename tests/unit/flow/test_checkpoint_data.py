"""What a workflow keeps at a checkpoint, its hash of inputs, and the errors of its contract."""

import pickle

import pytest

from agentos import errors
from agentos.flow.checkpoint import CheckpointData, CheckpointNotFoundError, InputMismatchError, compute_inputs_hash
from tests.unit.flow.samples import DOCUMENT


class TestData:
    def test_the_document_of_the_contract_is_read_and_written(self):
        """from_dict and to_dict are inverses."""
        data = CheckpointData.from_dict(DOCUMENT)
        assert ("expensive_compute", 1000) == (data.checkpoint_id, data.step_results[0]["output"]["rows"])
        assert DOCUMENT == data.to_dict()

    @pytest.mark.parametrize(
        "change",
        [
            {"checkpoint_id": ""},
            {"checkpoint_id": None},
            {"workflow_name": 7},
            {"inputs_hash": None},
            {"step_results": "x"},
            {"step_results": [1]},
            {"saved_at": "yesterday"},
            {"saved_at": None},
            {"extra": 1},
        ],
        ids=repr,
    )
    def test_a_document_of_another_shape_is_a_value_error(self, change):
        """What is missing, unknown or of another type is named."""
        with pytest.raises(ValueError, match=next(iter(change))):
            CheckpointData.from_dict({**DOCUMENT, **change})

    @pytest.mark.parametrize("key", DOCUMENT)
    def test_a_missing_key_is_a_value_error(self, key):
        """Each of them is needed."""
        with pytest.raises(ValueError, match=key):
            CheckpointData.from_dict({name: value for name, value in DOCUMENT.items() if name != key})

    def test_a_new_checkpoint_is_of_now(self):
        """The time can be left out."""
        assert CheckpointData("a", "w", "h", ()).moment.tzinfo is not None

    def test_the_hash_of_inputs_knows_no_order(self):
        """16 hexadecimal digits, the same for the same inputs, another one for others."""
        found = compute_inputs_hash({"a": 1, "b": [1, {"c": None}]})
        assert (16, True) == (len(found), all(digit in "0123456789abcdef" for digit in found))
        assert found == compute_inputs_hash({"b": [1, {"c": None}], "a": 1})
        assert found != compute_inputs_hash({"a": 1, "b": [1, {"c": 0}]})
        assert "44136fa355b3678a" == compute_inputs_hash({})

    def test_inputs_that_are_not_json_are_refused(self):
        """A hash over what does not come back would match by chance."""
        with pytest.raises(ValueError, match=r"inputs\['when'\]"):
            compute_inputs_hash({"when": object()})


class TestErrors:
    def test_not_found_says_where_and_is_one_of_ours(self):
        """It is what a caller of agentos catches, and what a caller of the contract reads."""
        error = CheckpointNotFoundError("wf", "cp")
        assert isinstance(error, errors.CheckpointNotFoundError)
        assert ("wf", "cp", None) == (error.workflow_id, error.checkpoint_id, CheckpointNotFoundError("wf").checkpoint_id)
        assert ("wf" in str(error), "cp" in str(error)) == (True, True)

    def test_a_mismatch_names_both_hashes(self):
        """And is one of ours."""
        error = InputMismatchError("aaa", "bbb")
        assert isinstance(error, errors.CheckpointError)
        assert ("aaa", "bbb", True) == (error.expected_hash, error.actual_hash, "aaa" in str(error) and "bbb" in str(error))

    @pytest.mark.parametrize("error", [CheckpointNotFoundError("wf", "cp"), InputMismatchError("a", "b")])
    def test_they_survive_a_process_border(self, error):
        """Pickling keeps the arguments."""
        copy = pickle.loads(pickle.dumps(error))
        assert (type(error), str(error), error.diagnostics()) == (type(copy), str(copy), copy.diagnostics())
