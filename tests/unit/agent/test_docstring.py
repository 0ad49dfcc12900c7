from holdfast.agent import docstring


def test_the_summary_is_the_first_paragraph_in_one_line():
    assert docstring.parse("Find\n    an order.\n\n    More.").summary == "Find an order."


def test_no_docstring_says_nothing():
    assert docstring.parse(None) == ("", {})


def test_the_args_section_ends_at_the_next_section():
    text = """Find.

    Args:
        order: The order: as given.
        limit (int, optional): How many.
            At most.

        empty:

    Raises:
        KeyError: Not a parameter.
    """
    assert docstring.parse(text).parameters == {"order": "The order: as given.", "limit": "How many. At most."}


def test_an_args_section_right_after_the_summary_is_not_part_of_it():
    assert docstring.parse("Find.\nArgs:\n    x: The x.") == ("Find.", {"x": "The x."})
