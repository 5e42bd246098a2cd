/** Keeps stdout for the command's result: what others print there, wrangler above all, goes to stderr. */
export function keepStdout(): (text: string) => void {
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr);
  return (text) => void write(`${text}\n`);
}
