"""Millrace's dashboards as code: `parts` builds panels, each other module is one dashboard."""
