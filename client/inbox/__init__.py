"""What the inbox shows of a call, and the decision that a filled-in form makes: for the pages and for the terminal."""
