"""Vectors of `LANES` numbers for numba kernels, held in registers.

The compiler does not vectorize short loops whose arrays may overlap, and it keeps running sums in memory.
With these vectors the kernels state what is computed at once, on any processor: the compiler splits a vector
into as many registers as it needs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import models, overload, register_model

LANES = 16


def intrinsic(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as kernels call it: without its first argument, the typing context."""
    return numba_intrinsic(work)


class Lanes(types.Type):
    """Type of a vector of `LANES` numbers of type `dtype`."""

    def __init__(self, dtype: types.Type) -> None:
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, _vector(kind))


def _vector(kind: Lanes) -> ir.VectorType:
    number = ir.FloatType() if kind.dtype == types.float32 else ir.DoubleType()
    return ir.VectorType(number, LANES)


def _address(context: Any, builder: Any, kind: types.Array, array: Any, start: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [start]), _vector(Lanes(kind.dtype)).as_pointer())


@intrinsic
def load(typing: Any, array: Any, start: Any) -> Any:
    """Return the vector ``array[start : start + LANES]`` of a contiguous 1-D array."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, array, *args)
        return builder.load(address, align=array.dtype.bitwidth // 8)

    return Lanes(array.dtype)(array, types.intp), lower


@intrinsic
def store(typing: Any, array: Any, start: Any, vector: Any) -> Any:
    """Write a vector to ``array[start : start + LANES]``."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, array, *args[:2])
        builder.store(args[2], address, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), lower


@intrinsic
def fill(typing: Any, number: Any) -> Any:
    """Return a vector of equal numbers."""
    kind = Lanes(number)

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _filled(builder, kind, args[0])

    return kind(number), lower


@intrinsic
def add_totals(typing: Any, array: Any, start: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Add the sums of the numbers of four vectors to ``array[start : start + 4]``.

    Halves of all four vectors are added at a time, which takes half as many operations as four sums.
    """

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = [_halved(builder, LANES, *two) for two in (args[2:4], args[4:6])]  # a and b, c and d
        sums = _halved(builder, LANES // 2, *pairs)
        size = LANES // 4
        while size > 1:
            sums, size = _halved(builder, size, sums, sums), size // 2
        four = ir.VectorType(sums.type.element, 4)
        address = builder.bitcast(_address(context, builder, array, *args[:2]), four.as_pointer())
        align = array.dtype.bitwidth // 8
        builder.store(builder.fadd(builder.load(address, align=align), sums), address, align=align)
        return context.get_dummy_value()

    return types.void(array, types.intp, a, b, c, d), lower


def _halved(builder: Any, size: int, first: Any, second: Any) -> Any:
    """Add the second half of each group of `size` lanes to its first half.

    The groups are those of both vectors, or of one if they are the same.
    """
    lanes = first.type.count * (1 if first is second else 2)
    low = [lane for lane in range(lanes) if lane % size < size // 2]
    halves = []
    for shift in (0, size // 2):
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(low)), [lane + shift for lane in low])
        halves.append(builder.shuffle_vector(first, second, mask))
    return builder.fadd(*halves)


@intrinsic
def rectified(typing: Any, vector: Any) -> Any:
    """Return the vector with its negative numbers replaced by 0; NaN stays NaN."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero = ir.Constant(_vector(vector), None)
        return builder.select(builder.fcmp_ordered("<", args[0], zero), zero, args[0])

    return vector(vector), lower


@intrinsic
def where_positive(typing: Any, condition: Any, vector: Any) -> Any:
    """Return the vector where `condition` is positive, and 0 elsewhere."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero = ir.Constant(_vector(vector), None)
        return builder.select(builder.fcmp_ordered(">", args[0], zero), args[1], zero)

    return vector(condition, vector), lower


def _filled(builder: Any, kind: Lanes, number: Any) -> Any:
    vector = _vector(kind)
    empty = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(empty, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(ir.IntType(32), LANES), None))


def _arithmetic(name: str) -> Any:
    @intrinsic
    def both(typing: Any, a: Any, b: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, name)(*args)

        return a(a, b), lower

    def choose(a: Any, b: Any) -> Callable[[Any, Any], Any] | None:
        if isinstance(a, Lanes) and isinstance(b, Lanes):
            return lambda a, b: both(a, b)
        if isinstance(a, Lanes) and isinstance(b, types.Float):
            return lambda a, b: both(a, fill(b))
        return None

    return choose


overload(operator.add, strict=False)(_arithmetic("fadd"))
overload(operator.sub, strict=False)(_arithmetic("fsub"))
overload(operator.mul, strict=False)(_arithmetic("fmul"))
