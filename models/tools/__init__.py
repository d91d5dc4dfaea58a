"""Tools: the tools file, the canonical grammar, and what words ask for."""

from voxgate.models.tools.grammar import MalformedCall, Parsed, check_params, parse, render
from voxgate.models.tools.schema import Tool, ToolSet, load_tools
from voxgate.models.tools.understand import understand
from voxgate.models.tools.vocabulary import vocabulary

__all__ = [
    "MalformedCall",
    "Parsed",
    "Tool",
    "ToolSet",
    "check_params",
    "load_tools",
    "parse",
    "render",
    "understand",
    "vocabulary",
]
