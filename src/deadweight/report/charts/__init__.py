"""Charts: drawings of the content, as SVG."""
