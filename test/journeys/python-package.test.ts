/**
 * The Python package as it is published: types, lint, wheel, and an install from it alone, which
 * verifies the webhooks that the service signs.
 */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, it } from "vitest";
import { signedHeaders } from "../../src/outbound/sign.ts";
import { install } from "../support/node/install.ts";
import { PACKAGE, readmePrograms, skipWithoutPython } from "../support/node/python.ts";
import { SECRETS } from "../support/receiver.ts";

const run = promisify(execFile);
const WORK = resolve(".stack", `python-package-${process.pid}`);
const TOOLS = ["build==1.6.1", "twine==7.0.0", "mypy==2.4.1", "ruff==0.17.6"];
/** A receiver in Python: secret, body and headers are its arguments. */
const VERIFY =
  "import json, sys; from rfq_custody.webhooks import verify_webhook; " +
  "print(verify_webhook(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])).type)";
afterAll(() => rmSync(WORK, { recursive: true, force: true }));

it(
  "is typed, linted, built, checked, and installed from its wheel",
  { timeout: 600_000 },
  async ({ skip }) => {
    skipWithoutPython(skip);
    mkdirSync(WORK, { recursive: true });
    const copy = join(WORK, "package");
    cpSync(PACKAGE, copy, { recursive: true, filter: (path) => !path.includes("dist") });
    const python = (name: string) => join(WORK, name, "bin/python");
    for (const name of ["tools", "fresh"])
      await install(skip, "python3", ["-m", "venv", name], { cwd: WORK });
    const pip = (name: string, ...what: string[]) =>
      install(skip, python(name), ["-m", "pip", "install", "--quiet", ...what], { cwd: WORK });
    await pip("tools", ...TOOLS);
    const tool = (...args: string[]) => run(python("tools"), ["-m", ...args], { cwd: copy });

    const built = await tool("build", "--outdir", WORK).then(
      () => "",
      (error: Error) => error.message,
    );
    skip(/Connection|Max retries/.test(built), "the build backend cannot be installed");
    const files = readdirSync(WORK).filter((name) => /\.(whl|tar\.gz)$/.test(name));
    expect(files, built).toHaveLength(2);
    await tool("twine", "check", "--strict", ...files.map((name) => join(WORK, name)));

    const wheel = files.find((name) => name.endsWith(".whl")) ?? "";
    await pip("fresh", join(WORK, wheel));
    const where = "import rfq_custody, sys; print(rfq_custody.__file__, rfq_custody.Client)";
    const { stdout } = await run(python("fresh"), ["-c", where], { cwd: WORK });
    expect(stdout).toContain("site-packages");
    const listed = await run(python("fresh"), ["-m", "pip", "list", "--format=freeze"]);
    const names = listed.stdout.split("\n").map((line) => line.split("==")[0]);
    const own = ["httpx2", "httpcore2", "websockets", "rfq-custody"];
    const theirs = ["anyio", "h11", "idna", "truststore", "typing_extensions", "pip", "setuptools"];
    expect(names.filter((name) => name && ![...own, ...theirs].includes(name))).toEqual([]);

    await pip("fresh", `${join(WORK, wheel)}[webhooks]`);
    readmePrograms().forEach((program, index) =>
      writeFileSync(join(WORK, `example_${index}.py`), program),
    );
    // The types of the installed package, as a user's program sees them.
    const examples = readdirSync(WORK).filter((name) => name.startsWith("example_"));
    const types = ["mypy", "--strict", "--python-executable", python("fresh")];
    await tool(...types, ...examples.map((name) => join(WORK, name)));
    await tool(...types, "src", "tests");
    await tool("ruff", "check", "src", "tests");
    await tool("ruff", "format", "--check", "src", "tests");

    const event = { type: "webhook.test", stream: "account:1", seq: 0, at: "2026-11-20T10:00:00Z" };
    const body = JSON.stringify({ ...event, data: {} });
    const message = { id: "account:1:7", at: Date.now(), body };
    const headers = JSON.stringify(signedHeaders(SECRETS, message));
    const verify = (secret: string, given = body) =>
      run(python("fresh"), ["-c", VERIFY, secret, given, headers]);
    for (const secret of SECRETS) expect((await verify(secret)).stdout).toBe("webhook.test\n");
    await expect(verify(SECRETS[0] ?? "", "{}")).rejects.toThrow("No matching signature");
  },
);
