/** Reads the command line of a script. Unknown arguments end it with the usage text. */
import { type ParseArgsConfig, parseArgs } from "node:util";

type Options = NonNullable<ParseArgsConfig["options"]>;
type Values<O extends Options> = ReturnType<typeof parseArgs<{ options: O }>>["values"];

/** Ends the process after `--help` with 0, and after arguments that it cannot read with 2. */
export function readArguments<const O extends Options>(
  usage: string,
  options: O,
  args: readonly string[] = process.argv.slice(2),
): Values<O> {
  if (args.some((argument) => argument === "--help" || argument === "-h")) {
    console.log(usage);
    process.exit(0);
  }
  try {
    return parseArgs({ args: [...args], options }).values as Values<O>;
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error), usage);
  }
}

/** The value of an option that is a number above 0. */
export function positive(text: string, name: string, usage: string): number {
  const value = Number(text);
  return value > 0 ? value : refuse(`--${name} must be a number above 0, not "${text}"`, usage);
}

export function refuse(reason: string, usage: string): never {
  console.error(`${reason}\n\n${usage}`);
  process.exit(2);
}
