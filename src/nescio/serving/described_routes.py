"""What `/openapi.json` says about bodies, answers and errors."""

from typing import Any

ARROW = "application/vnd.apache.arrow.stream"
ERROR: dict[str, Any] = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "What is wrong, and what to do."}},
    "required": ["error"],
}
MEANINGS = {
    400: "The body cannot be parsed.",
    401: "No key was sent, or one that is not known.",
    403: "The key, or the path, does not allow this.",
    404: "There is no such guard or version.",
    408: "The request did not arrive in time.",
    409: "There is no version to go back to.",
    413: "The body has too many bytes, rows or pixels.",
    415: "Bodies of this type are not read.",
    422: "The body can be parsed, but is not what is read here.",
    500: "An error of the service, which is in its log lines.",
    503: "Not now: the queue is full, the log cannot be written, or the service stops. Try again "
    "after the seconds of Retry-After.",
    504: "The decision, or its way to the log, took too long.",
    507: "There is no room for the log, so no decision is given.",
}
NUMBER = {"type": ["number", "null"]}
DECISION: dict[str, Any] = {
    "type": "object",
    "description": "The row that `nescio score` writes for this input, and its id in the log.",
    "properties": {
        "id": {"type": "string"},
        "decision": {"enum": ["answer", "unsure", "ood"]},
        "label": {"type": ["string", "integer"]},
        "probability": NUMBER,
        "p_value": NUMBER,
        "score": NUMBER,
        "failure_score": NUMBER,
        "rule": {"type": "string"},
        "in_range": {"type": "boolean"},
        "set": {"type": "string"},
    },
    "required": ["id", "decision", "rule", "in_range"],
}
PREDICTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Of the request."},
        "guard": {"type": "string"},
        "version": {"type": "string"},
        "decisions": {"type": "array", "items": DECISION},
    },
    "required": ["id", "guard", "version", "decisions"],
}
BYTES = {"schema": {"type": "string", "format": "binary"}}
BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "description": "A list of inputs, alone or under the key inputs or rows: nested "
                "lists of numbers, or objects with the columns of a table.",
                "oneOf": [
                    {"type": "array", "items": {}},
                    {"type": "object"},
                ],
            }
        },
        "application/x-npy": BYTES,
        ARROW: BYTES,
        "image/png": BYTES,
        "image/jpeg": BYTES,
    },
}
V2_TENSOR: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer"}},
        "datatype": {"type": "string"},
        "parameters": {"type": "object"},
        "data": {"type": "array", "items": {}},
    },
    "required": ["name", "shape", "datatype"],
}
V2_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "parameters": {"type": "object"},
                    "inputs": {"type": "array", "items": V2_TENSOR, "minItems": 1},
                    "outputs": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                    },
                },
                "required": ["inputs"],
            }
        },
        "application/octet-stream": BYTES,
    },
}
V2_ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "model_name": {"type": "string"},
        "model_version": {"type": "string"},
        "id": {"type": "string"},
        "outputs": {"type": "array", "items": V2_TENSOR},
    },
    "required": ["model_name", "model_version", "id", "outputs"],
}
PREDICTING = (400, 401, 403, 404, 413, 415, 422, 500, 503, 504, 507)


def answers(
    *codes: int, ok: dict[str, Any] | None = None, more: dict[str, Any] | None = None
) -> dict[int | str, dict[str, Any]]:
    """The answers of a route: errors by their `codes`, and the schema of a good one.

    ok: the schema of the good answer; None: as FastAPI finds it.
    more: other kinds of content of it.
    """
    found: dict[int | str, dict[str, Any]] = {
        code: {
            "description": MEANINGS[code],
            "content": {"application/json": {"schema": ERROR}},
        }
        for code in codes
    }
    if ok is not None:
        content = {"application/json": {"schema": ok}, **(more or {})}
        found[200] = {"description": "Decisions.", "content": content}
    return found
