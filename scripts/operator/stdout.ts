/** Reserves stdout for the command's result. Other output, such as wrangler's, goes to stderr. */
export function reserveStdout(): (text: string) => void {
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr);
  return (text) => void write(`${text}\n`);
}
