"""A cassette, or two that are compared, as one page for a browser: everything is in the file, and no data leaves it."""

from agenttape_core.tools.viewer.page import Listed, is_page, listing_of, page_of

__all__ = ["Listed", "is_page", "listing_of", "page_of"]
