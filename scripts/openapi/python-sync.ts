/** sync_operations.py of the Python client: its operations for programs without asyncio. */
import { HEAD } from "./python-types.ts";

/** From the text of operations.py, whose methods have the same signatures. */
export function pythonSync(operations: string): string {
  const classes = operations.split(/^class /m).slice(1);
  const waiting = classes.map((text) => {
    const [name = ""] = /^\w+/.exec(text) ?? [];
    const methods = [...text.matchAll(/^ {4}(async )?def ([a-z]\w*)\(/gm)].map(
      ([, waits, method]) => `    ${method} = ${waits ? "waits" : "lists"}(o.${name}.${method})`,
    );
    const doc =
      name === "Commands" ? "The commands of a socket." : `\`o.${name}\` without asyncio.`;
    return `class Sync${name}(Calls):\n    """${doc}"""\n\n${methods.join("\n")}`;
  });
  return `${HEAD}"""A method for each operation of the service, for programs without asyncio."""

from . import operations as o
from ._sync import Calls, lists, waits


${waiting.join("\n\n\n")}
`;
}
