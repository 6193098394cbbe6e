"""Text to UTF-8 and back, with errors that name the place."""


def utf8(text: str | bytes) -> bytes:
    """The UTF-8 bytes of a string; bytes are taken as they are.

    Raises ValueError for a lone surrogate, which UTF-8 cannot express.
    """
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"character {error.start} of the text is the lone surrogate U+{ord(text[error.start]):04X}, "
            "which has no UTF-8 form; remove it"
        ) from error


def characters(text: str | bytes) -> str:
    """The string of UTF-8 bytes; a string is checked and taken as it is.

    Raises ValueError for bytes that are not UTF-8, naming the first of them, and for a lone surrogate.
    """
    if isinstance(text, str):
        utf8(text)
        return text
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"the text is not UTF-8 at byte {error.start} (0x{text[error.start]:02x}); convert it to UTF-8"
        ) from error
