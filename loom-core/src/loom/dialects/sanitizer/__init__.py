"""The ``sanitizer`` dialect: executable checks, and observations for race detection."""
