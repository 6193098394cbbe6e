"""The one kind of error that is the user's to mend."""


class UserError(Exception):
    """A line for each mistake, which names what is wrong and how to mend it; the command line prints them and exits with 2."""
