"""Timings against plain references, as ratios measured in pairs; `deadweight benchmark` prints them."""
