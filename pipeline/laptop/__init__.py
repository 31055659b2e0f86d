"""The demo, and the embedded broker and database it runs on."""
