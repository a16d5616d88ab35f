# SPDX-License-Identifier: Apache-2.0
"""The exception of macheps."""

from __future__ import annotations


class Error(ValueError):
    """An error that states what went wrong, where, and how to fix it.

    Attributes
    ----------
    what, where, fix : str
        Parts of the message, which reads ``where: what (fix)``. ``where`` and ``fix`` may be empty.

    Examples
    --------
    >>> import macheps as me
    >>> try:
    ...     me.round(1.0, "e4m4fn")
    ... except me.Error as error:
    ...     print(error.what)
    unknown format 'e4m4fn'
    """

    what: str
    where: str
    fix: str

    def __init__(self, what: str, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        line = f"{where}: {what}" if where else what
        super().__init__(f"{line} ({fix})" if fix else line)

    def __reduce__(self) -> tuple[type["Error"], tuple[str, str, str]]:
        return type(self), (self.what, self.where, self.fix)
