"""The master data: one port (`port.py`), read from MySQL, or kept in memory for tests and calibration."""
