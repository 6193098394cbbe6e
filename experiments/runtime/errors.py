"""The errors that are the user's to mend."""


class UserError(Exception):
    """A line for each mistake, which names what is wrong and how to mend it; the command line prints them and exits with 2."""


class Apart(UserError):  # noqa: N818  # as a place, not a kind of error
    """An error of a process that trains together with others, which it cannot tell: it ends without waiting for them."""
