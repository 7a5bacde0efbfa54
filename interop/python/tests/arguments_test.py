"""Messages about wrong arguments name what was passed, and what was meant."""

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import tutti

READ_ONLY = np.ones(4)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize("call, reason", [
    (lambda comm: comm.all_reduce(np.ones(4), inplace=True),
     "all_reduce() got an unexpected keyword argument 'inplace' (it takes send, recv, op, stream)"),
    (lambda comm: comm.all_reduce(np.ones(4), recieve=None),
     "all_reduce() got an unexpected keyword argument 'recieve'; did you mean 'recv'? (it takes send, recv, op, stream)"),
    (lambda comm: comm.all_reduce(), "all_reduce() missing a required argument: 'send' (it takes send, recv, op, stream)"),
    (lambda comm: comm.send(np.ones(4), 0, 1), "send() too many positional arguments (it takes send, peer, stream)"),
    (lambda comm: comm.reduce(np.ones(4), root="a"), "reduce(): root is 'a', of type str, but takes int"),
    (lambda comm: comm.dump(3), "dump(): path is 3, of type int, but takes str"),
    (lambda comm: tutti.init(timout=5), "init() has no option 'timout'; did you mean 'timeout'? (there are name, "),
    (lambda comm: comm.split(0, colour=2), "split() has no option 'colour' (there are name, "),
    (lambda comm: tutti.init(timeout="5"), "init(): timeout is '5', of type str, but takes a number of seconds"),
    (lambda comm: comm.shrink(channels=1.5), "shrink(): channels is 1.5, of type float, but takes a whole number"),
])
def test_arguments_that_a_function_does_not_take(alone, call, reason):
    with pytest.raises(TypeError, match=re.escape(reason)):
        call(alone)


@pytest.mark.parametrize("call, reason", [
    (lambda comm: comm.all_reduce(np.ones(4), op="summ"), "op is 'summ'; did you mean 'sum'? (there are 'sum', 'prod', "),
    (lambda comm: comm.broadcast(READ_ONLY, root=1), "send is read-only, and the call writes to it"),
    (lambda comm: comm.broadcast(None, READ_ONLY, root=1), "recv is read-only, and the call writes to it"),
])
def test_values_that_a_function_does_not_take(alone, call, reason):
    with pytest.raises(tutti.InvalidArgumentError, match=re.escape(reason)):
        call(alone)


def test_a_type_error_of_the_call_itself_stays(alone):
    with pytest.raises(TypeError, match="send is of type list, which lends no memory"):
        alone.all_reduce([1, 2])


def test_numbers_of_numpy_are_numbers(alone):
    assert alone.reduce(np.ones(4), root=np.int64(0)) is not None
    with alone.split(0, timeout=np.float64(5), channels=np.int32(1)) as child:
        assert child.size == 1


def test_public_names_are_those_of_the_package():
    for name in tutti.__all__:
        thing = getattr(tutti, name)
        if isinstance(thing, type):
            assert thing.__module__ == "tutti", name
    assert type(pickle.loads(pickle.dumps(tutti.RemoteError("rank 1 left")))) is tutti.RemoteError
    done = subprocess.run([sys.executable, "-c", "import tutti; raise tutti.RemoteError('rank 1 left')"],
                          stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr.endswith("\ntutti.RemoteError: rank 1 left\n")
