"""The one kind of error that is the user's to mend."""


class UserError(Exception):
    """One line that names what is wrong and how to mend it; the command line prints it and exits with 2."""
