"""Sections: the parts of the page, in words, tables and drawings."""
