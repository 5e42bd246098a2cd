/** Reads the command line of a script. Unknown arguments end it with the usage text. */
import { type ParseArgsConfig, parseArgs } from "node:util";

type Options = NonNullable<ParseArgsConfig["options"]>;
type Values<O extends Options> = ReturnType<typeof parseArgs<{ options: O }>>["values"];

/** Ends the process after `--help` with 0, and after arguments that it cannot read with 2. */
export function readArguments<const O extends Options>(usage: string, options: O): Values<O> {
  if (process.argv.slice(2).some((argument) => argument === "--help" || argument === "-h")) {
    console.log(usage);
    process.exit(0);
  }
  try {
    return parseArgs({ options }).values as Values<O>;
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error), usage);
  }
}

export function refuse(reason: string, usage: string): never {
  console.error(`${reason}\n\n${usage}`);
  process.exit(2);
}
