"""The directive ``http-routes``: every route of the service with its fields, from its OpenAPI description."""

import json

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from rewardmix.service.openapi import make_openapi


def list_operations(api):
    """Yield (path, method, operation) in the order of the description."""
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            if isinstance(operation, dict) and "responses" in operation:
                yield path, method.upper(), operation


def schema_name(holder):
    """Return the name of the schema of a request or response body, or an empty string."""
    for content in holder.get("content", {}).values():
        return content["schema"].get("$ref", "").rpartition("/")[2]
    return ""


def make_paragraph(label, *texts):
    """Make a paragraph with literals between commas."""
    paragraph = nodes.paragraph("", f"{label}: ")
    for i, text in enumerate(texts):
        paragraph += [nodes.Text(", ")] * (i > 0) + [nodes.literal(text=text)]
    return paragraph


class HttpRoutes(SphinxDirective):
    """Show a section for each route and each schema."""

    def run(self):
        """Make the sections."""
        api = make_openapi()
        sections = []
        for path, method, operation in list_operations(api):
            title = f"{method} {path}"
            section = nodes.section("", nodes.title(text=title), ids=[f"route-{nodes.make_id(title)}"])
            section += nodes.paragraph(text=f"{operation['summary']}.")
            body = schema_name(operation.get("requestBody", {}))
            good = next(response for status, response in operation["responses"].items() if status.startswith("2"))
            section += [make_paragraph("Body", body)] * bool(body)
            section += [make_paragraph("Response", schema_name(good))] * bool(schema_name(good))
            section += make_paragraph("Status codes", *operation["responses"])
            sections.append(section)
        for name, schema in api["components"]["schemas"].items():
            section = nodes.section("", nodes.title(text=name), ids=[f"schema-{nodes.make_id(name)}"])
            text = json.dumps(schema, indent=2, ensure_ascii=False)
            section += nodes.literal_block(text, text, language="json")
            sections.append(section)
        return sections


def setup(app):
    """Register the directive with Sphinx."""
    app.add_directive("http-routes", HttpRoutes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
