"""How answers of ``stepwatchd replay`` are read, compared with labels, and put in a table."""
