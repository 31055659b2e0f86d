"""The papers' experiments: joins on declared disks and a virtual clock, or on a real server."""
