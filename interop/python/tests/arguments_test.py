"""Messages about wrong arguments name what was passed, and what was meant."""

import math
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
    (lambda comm: comm.split(color="x"), "split(): color is 'x', of type str, but takes a whole number"),
    (lambda comm: comm.split(0, key=0.5), "split(): key is 0.5, of type float, but takes a whole number"),
    (lambda comm: comm.shrink(["a"]), "shrink(): a rank of exclude is 'a', of type str, but takes a whole number"),
    (lambda comm: comm.shrink(abort="x"), "shrink(): abort is 'x', of type str, but takes True or False"),
    (lambda comm: comm.grow("x"), "grow(): size is 'x', of type str, but takes a whole number"),
    (lambda comm: comm.grow(2, "id"), "grow(): id is 'id', of type str, but takes the bytes of unique_id()"),
    (lambda comm: tutti.init(0, "one", b""), "init(): size is 'one', of type str, but takes a whole number"),
    (lambda comm: tutti.init(0, 1, 5), "init(): id is 5, of type int, but takes the bytes of unique_id()"),
])
def test_arguments_that_a_function_does_not_take(alone, call, reason):
    with pytest.raises(TypeError, match=re.escape(reason)):
        call(alone)


@pytest.mark.parametrize("call, reason", [
    (lambda comm: comm.all_reduce(np.ones(4), op="summ"), "op is 'summ'; did you mean 'sum'? (there are 'sum', 'prod', "),
    (lambda comm: comm.broadcast(READ_ONLY, root=1), "send is read-only, and the call writes to it"),
    (lambda comm: comm.broadcast(None, READ_ONLY, root=1), "recv is read-only, and the call writes to it"),
    (lambda comm: tutti.init(timeout=-1), "init(): timeout is -1, but takes 0 to 2147483 seconds; 0 is for ever"),
    (lambda comm: tutti.init(init_timeout=-1e-9), "init(): init_timeout is -1e-09, but takes 0 to 2147483 seconds"),
    (lambda comm: comm.split(0, timeout=math.nan), "split(): timeout is nan, but takes 0 to 2147483 seconds"),
    (lambda comm: comm.shrink(timeout=math.inf), "shrink(): timeout is inf, but takes 0 to 2147483 seconds"),
    (lambda comm: comm.grow(2, init_timeout=1e30), "grow(): init_timeout is 1e+30, but takes 0 to 2147483 seconds"),
    (lambda comm: comm.split(0, channels=2**40), "split(): channels is 1099511627776, but takes whole numbers of 32 bits"),
    (lambda comm: comm.split(2**40), "split(): color is 1099511627776, but takes whole numbers of 32 bits"),
    (lambda comm: comm.split(-1), "split(): color is -1, but takes 0 and more, or None"),
    (lambda comm: comm.shrink([0]), "shrink(): exclude has 1 of 1 ranks, but at least one must stay"),
    (lambda comm: comm.shrink([5]), "shrink(): exclude has rank 5; the ranks are 0 to 0"),
])
def test_values_that_a_function_does_not_take(alone, call, reason):
    with pytest.raises(tutti.InvalidArgumentError, match=re.escape(reason)):
        call(alone)


def test_a_type_error_of_the_call_itself_stays(alone):
    with pytest.raises(TypeError, match="send is of type list, which lends no memory"):
        alone.all_reduce([1, 2])


def test_numbers_of_numpy_are_numbers(alone):
    assert alone.reduce(np.ones(4), root=np.int64(0)) is not None
    with alone.split(np.int64(0), timeout=np.float64(5), channels=np.int32(1)) as child:
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
