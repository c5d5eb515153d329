"""BLEND: several estimates of one value, mixed by what they know and how far they agree."""
