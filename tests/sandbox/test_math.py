"""Every name of `pm.math`, and PyTensor functions beside them: the graph means what PyTensor computes."""

from __future__ import annotations

import pymc as pm
import pytest

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from tests.sandbox.extraction.test_extraction import check

TEMPLATE = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    b = pm.Beta("b", 2, 3)
    v = pm.Normal("v", a, 1, shape=3)
    M = pm.Gamma("M", 2, 1, shape=(3, 3))
    S = pt.dot(M, M.T) + pt.eye(3)
    mu = {mean}
    pm.Normal("obs", mu + 0 * age, 1, observed=length)
"""

MATH = {
    "abs": "pm.math.abs(a)",
    "all": "pm.math.all(v > 0) * a",
    "and_": "pm.math.and_(a > 0, b > 0.5) * a",
    "any": "pm.math.any(v > 0) * a",
    "arange": "(pm.math.arange(9) * a).sum()",
    "arccos": "pm.math.arccos(b)",
    "arccosh": "pm.math.arccosh(1 + b)",
    "arcsin": "pm.math.arcsin(b)",
    "arcsinh": "pm.math.arcsinh(a)",
    "arctan": "pm.math.arctan(a)",
    "arctan2": "pm.math.arctan2(a, b) + pm.math.arctan2(a, -b) + pm.math.arctan2(-a, a - 1)",
    "arctanh": "pm.math.arctanh(b)",
    "as_tensor": "(pm.math.as_tensor(age) * a).sum()",
    "batched_diag": "(pm.math.batched_diag(M) * a).sum(axis=0)[0, 0]",
    "block_diag": "pm.math.block_diag(M, S).sum(axis=0)[4]",
    "block_diagonal": "pm.math.block_diagonal([M, S]).sum(axis=0)[4]",
    "broadcast_arrays": "sum(x.sum() for x in pm.math.broadcast_arrays(a, v))",
    "broadcast_to": "pm.math.broadcast_to(a, (9,)).sum()",
    "cartesian": "(pm.math.cartesian(np.arange(2), np.arange(3)) * a).sum()",
    "ceil": "pm.math.ceil(3 * a)",
    "cho_solve": "pm.math.cho_solve((pt.linalg.cholesky(S), True), v).sum()",
    "cholesky": "(pm.math.cholesky(S) @ v).sum()",
    "clip": "pm.math.clip(a, 0.2, 0.5)",
    "concatenate": "pm.math.concatenate([v, v * a]).sum()",
    "constant": "pm.math.constant(2.0) * a",
    "cos": "pm.math.cos(a)",
    "cosh": "pm.math.cosh(a)",
    "cumprod": "pm.math.cumprod(v)[1]",
    "cumsum": "pm.math.cumsum(v)[1]",
    "det": "pm.math.det(S)",
    "diag": "pm.math.diag(M).sum() + pm.math.diag(v)[1].sum()",
    "diff": "pm.math.diff(v)[0]",
    "digamma": "pm.math.digamma(b + 0.1)",
    "dot": "pm.math.dot(v, v)",
    "eq": "pm.math.eq(a, b) + a",
    "erf": "pm.math.erf(a)",
    "erfc": "pm.math.erfc(a)",
    "erfcinv": "pm.math.erfcinv(b)",
    "erfinv": "pm.math.erfinv(b)",
    "exp": "pm.math.exp(a)",
    "expand_dims": "pm.math.expand_dims(v, 0).sum()",
    "expand_packed_triangular": "pm.math.expand_packed_triangular(2, v)[1, 0]",
    "expm1": "pm.math.expm1(a)",
    "eye": "(pm.math.eye(3) * M).sum()",
    "flat_outer": "pm.math.flat_outer(v, v)[5]",
    "flatten": "pm.math.flatten(M)[5]",
    "flatten_list": "pm.math.flatten_list([v, M]).sum()",
    "floor": "pm.math.floor(3 * a)",
    "full": "pm.math.full((3,), a).sum()",
    "full_like": "pm.math.full_like(v, a).sum()",
    "gamma": "pm.math.gamma(b + 0.5) + pm.math.gamma(b - 1.5)",
    "gammaln": "pm.math.gammaln(b)",
    "ge": "pm.math.ge(a, b) * a",
    "gt": "pm.math.gt(a, b) * a",
    "i0": "pm.math.i0(a)",
    "i1": "pm.math.i1(a)",
    "iv": "pm.math.iv(3, b)",
    "invlogit": "pm.math.invlogit(a)",
    "invprobit": "pm.math.invprobit(a)",
    "kron": "pm.math.kron(M, S)[4].sum()",
    "kron_diag": "pm.math.kron_diag(v, v)[5]",
    "kron_dot": "pm.math.kron_dot([M, S], pt.arange(9.0)[:, None])[4, 0]",
    "kron_solve_lower": "pm.math.kron_solve_lower([S, S], pt.arange(9.0)[:, None])[4, 0]",
    "kron_solve_upper": "pm.math.kron_solve_upper([S, S], pt.arange(9.0)[:, None])[4, 0]",
    "kronecker": "pm.math.kronecker(M, S)[4].sum()",
    "le": "pm.math.le(a, b) * a",
    "linspace": "(pm.math.linspace(0, 1, 3) * v).sum()",
    "log": "pm.math.log(b)",
    "log10": "pm.math.log10(b)",
    "log1mexp": "pm.math.log1mexp(-b)",
    "log1p": "pm.math.log1p(b)",
    "log1pexp": "pm.math.log1pexp(a)",
    "log2": "pm.math.log2(b)",
    "log_softmax": "pm.math.log_softmax(v)[0]",
    "logaddexp": "pm.math.logaddexp(a, b)",
    "logdet": "pm.math.logdet(S)",
    "logdiffexp": "pm.math.logdiffexp(a + 2, b)",
    "logit": "pm.math.logit(b)",
    "logsumexp": "pm.math.logsumexp(v)",
    "lt": "pm.math.lt(a, b) * a",
    "matmul": "pm.math.matmul(M, v)[0] + pm.math.matmul(pt.stack([M, S]), S)[1, 0, 2]",
    "matrix_inverse": "pm.math.matrix_inverse(S)[0, 1]",
    "max": "pm.math.max(v)",
    "maximum": "pm.math.maximum(a, b)",
    "mean": "pm.math.mean(v)",
    "min": "pm.math.min(v)",
    "minimum": "pm.math.minimum(a, b)",
    "moveaxis": "pm.math.moveaxis(M, 0, 1)[0].sum()",
    "neq": "pm.math.neq(a, b) * a",
    "norm": "pm.math.norm(v)",
    "ones": "pm.math.ones(3).sum() * a",
    "ones_like": "(pm.math.ones_like(v) * v).sum()",
    "or_": "pm.math.or_(a > 0, b > 0.5) * a",
    "prod": "pm.math.prod(v)",
    "repeat": "pm.math.repeat(v, 2)[3]",
    "reshape": "pm.math.reshape(M, (9,))[5]",
    "round": "pm.math.round(3 * a)",
    "sgn": "pm.math.sgn(a)",
    "sigmoid": "pm.math.sigmoid(a)",
    "sin": "pm.math.sin(a)",
    "sinh": "pm.math.sinh(a)",
    "slogdet": "pm.math.slogdet(S)[1]",
    "softmax": "pm.math.softmax(v)[0]",
    "softplus": "pm.math.softplus(a)",
    "solve": "pm.math.solve(S, v)[0]",
    "solve_triangular": "pm.math.solve_triangular(S, v, lower=True)[2]",
    "sort": "pm.math.sort(v)[0] + pm.math.sort(M, axis=0)[1, 2]",
    "sqr": "pm.math.sqr(a)",
    "sqrt": "pm.math.sqrt(b)",
    "squeeze": "pm.math.squeeze(v[None])[1]",
    "stack": "pm.math.stack([a, b])[1]",
    "std": "pm.math.std(v)",
    "sum": "pm.math.sum(v)",
    "swapaxes": "pm.math.swapaxes(M, 0, 1)[0].sum()",
    "switch": "pm.math.switch(a > 0, a, b)",
    "take": "pm.math.take(v, [0, 2]).sum()",
    "tan": "pm.math.tan(a)",
    "tanh": "pm.math.tanh(a)",
    "tile": "pm.math.tile(v, 2)[4]",
    "trace": "pm.math.trace(M)",
    "transpose": "pm.math.transpose(M)[0].sum()",
    "tril": "pm.math.tril(M)[2].sum()",
    "triu": "pm.math.triu(M)[0].sum()",
    "var": "pm.math.var(v)",
    "where": "pm.math.where(a > 0, a, b)",
    "zeros": "pm.math.zeros(3).sum() + a",
    "zeros_like": "pm.math.zeros_like(v).sum() + a",
}

SINGLE = frozenset({"probit"})
"""In terms of constants that PyTensor folds in single precision; `test_extraction` has them."""

REFUSED = {
    "argsort": ("v[pt.argsort(v)][0]", "operation ArgSortOp"),
    "betainc": ("pt.betainc(1 + b, 2.0, 0.3)", "operation BetaInc"),
    "eigh": ("pt.linalg.eigh(S)[0][0]", "operation Eigh"),
    "gammainc": ("pt.gammainc(1 + b, 2.0)", "operation GammaInc"),
    "gammaincc": ("pt.gammaincc(1 + b, 2.0)", "operation GammaIncC"),
    "kv": ("pt.kv(1, b)", "operation Kv"),
    "polygamma": ("pt.polygamma(1, b)", "operation PolyGamma"),
    "unique": ("pt.unique(v)[0]", "operation Unique"),
}

NO_TENSOR = frozenset({"logbern"})
"""Names that draw a random number in Python: what they give is no part of a model."""

TESTED_BESIDE = frozenset({"argmax", "argmin"})
"""Names of `pm.math` from PyMC 6 on, which `BESIDE` has."""

BESIDE = (
    "pt.argmax(v) * a + pt.argmin(M, axis=0)[2] * b + pt.argmax(M, axis=-1)[0] + a * pt.argmax(M)",
    "pt.fill_diagonal(M, a)[1].sum() + pt.diagonal(S)[0] + pt.linalg.inv(S)[0, 1]",
    "pt.einsum('ij,j->i', M, v)[0] + pt.diagonal(S, offset=1)[0]",
    "pt.linalg.solve(S, M)[0, 1] + pt.sort(v)[::-1][0] + pt.gamma(b) + pt.i0(a) + pt.psi(b) + pt.isnan(a)",
    "pt.linalg.slogdet(S)[1] + pt.linalg.det(M) + pt.linalg.cholesky(S, lower=False)[0, 2]",
    "pt.switch(pt.isinf(a), 0.0, a) + pt.tensordot(M, v, 1)[0] + pt.outer(v, v)[0, 1] + pt.roll(v, 1)[0]",
)

NAMES = sorted(set(MATH) & set(pm.math.__all__))
GROUPS = [tuple(NAMES[start : start + 6]) for start in range(0, len(NAMES), 6)]


def test_every_name_is_tried() -> None:
    assert set(pm.math.__all__) <= set(MATH) | set(REFUSED) | SINGLE | NO_TENSOR | TESTED_BESIDE


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize("names", GROUPS, ids="-".join)
def test_names_agree_with_pytensor(names: tuple[str, ...]) -> None:
    check(TEMPLATE.format(mean=" + ".join(f"({MATH[name]})" for name in names)), rtol=1e-9)


@pytest.mark.parametrize("mean", BESIDE)
def test_functions_beside_them_agree_with_pytensor(mean: str) -> None:
    check(TEMPLATE.format(mean=mean), rtol=1e-9)


@pytest.mark.parametrize("name", REFUSED)
def test_names_outside_the_language_say_so(name: str) -> None:
    expression, reason = REFUSED[name]
    with pytest.raises(ProgramFailure, match=reason) as failure:
        check(TEMPLATE.format(mean=expression))
    assert failure.value.category == FailureCategory.UNSUPPORTED
