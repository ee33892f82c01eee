"""Values for the paths of all pages, and a browser's request."""

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

REQUEST = "0123456789abcdef0123"

VALUES = {"table": "orders", "version": "0", "name": "lakehouse.js", "subject": "customer", "erasure": REQUEST}
