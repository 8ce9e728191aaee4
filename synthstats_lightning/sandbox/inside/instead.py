"""What a program writes in place of a use of the response's values."""

from __future__ import annotations

_STATISTICS = frozenset(
    {
        "mean", "std", "var", "sum", "prod", "min", "max", "amin", "amax", "ptp", "median", "average",
        "quantile", "percentile", "nanmean", "nanstd", "nanvar", "nanmin", "nanmax", "nanmedian", "nansum",
        "cumsum", "cumprod", "argmax", "argmin", "argsort", "sort", "histogram", "bincount", "unique", "cov",
        "corrcoef", "polyfit", "lstsq", "gradient", "describe", "rank", "nunique", "value_counts", "idxmax",
        "idxmin",
    }
)  # fmt: skip
_CHOICES = frozenset(
    {
        "equal", "not_equal", "greater", "greater_equal", "less", "less_equal", "isclose", "isin", "in1d",
        "logical_not", "logical_and", "logical_or", "invert", "any", "all", "nonzero", "argwhere",
        "flatnonzero", "count_nonzero", "isinf", "between",
    }
)  # fmt: skip
_LAGS = frozenset({"shift", "diff", "rolling", "ewm", "expanding", "pct_change", "autocorr", "roll"})
_LIMITS = frozenset({"where", "select", "choose", "putmask", "place"})
_ARITHMETIC = frozenset(
    {
        "add", "subtract", "multiply", "divide", "true_divide", "negative", "power", "sqrt", "square", "cbrt",
        "exp", "log1p", "expm1", "log", "log2", "log10", "round", "around", "clip", "minimum", "maximum",
        "reciprocal", "abs", "absolute", "floor", "ceil", "rint", "arcsin", "tanh",
    }
)  # fmt: skip


def instead_of(call: str) -> str:
    """What to write, in words that end a message.

    Args:
        call: Name of the function that was called with the response; any other word for any other use.
    """
    if call in _LAGS:
        return (
            "a series that depends on its own past is pm.AR, pm.GARCH11 or a random walk, or its lags are"
            " columns of the data"
        )
    if call in _STATISTICS:
        return (
            "priors and scales may not come from it. Choose them beforehand, or let the task standardise the"
            " response (response_transform: standardised) and observe it as it is"
        )
    if call in _CHOICES:
        return (
            "rows are chosen by covariates, as in y[group == 0]. Rows whose response is missing are left"
            " out already (`missing` of the task says what stands for a missing cell): observe it as it is"
        )
    if call in _LIMITS:
        return (
            "limits and indicators of censoring are columns of the data. Give pm.Censored a column of limits"
            " (upper=limit, infinite where a row is not censored)"
        )
    if call in _ARITHMETIC:
        return (
            "of its transforms the logarithm and other units, by plain numbers or columns, are known, as in"
            " (y - 100) / 15 and y / population. Put anything else into the parameters of its distribution"
        )
    return "as it is or reordered, split by covariates, its logarithm, in other units by numbers or columns"
