"""Errors that end a command, each with the exit status that the command line returns for it."""


class VoxgateError(Exception):
    """One clear line for the user: what is wrong, and what to do about it."""

    exit_status = 1


class InputError(VoxgateError):
    """Bad arguments or input: a file, a profile, a tools file, a home folder."""

    exit_status = 2


class DeviceError(VoxgateError):
    """Audio device trouble: not there, busy, gone."""

    exit_status = 3
