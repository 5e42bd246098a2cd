/** What a script takes on its command line: `--help` in words, and anything that it does not know refused with them. */
import { type ParseArgsConfig, parseArgs } from "node:util";

type Options = NonNullable<ParseArgsConfig["options"]>;
type Values<O extends Options> = ReturnType<typeof parseArgs<{ options: O }>>["values"];

/** Ends the process after `--help` (0) and after what cannot be understood (2). */
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

export function refuse(fault: string, usage: string): never {
  console.error(`${fault}\n\n${usage}`);
  process.exit(2);
}
