"""The ``func`` dialect: functions and exact calls."""
