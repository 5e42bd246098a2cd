/**
 * Stops what a script has started when it ends or is interrupted. A second Ctrl-C does not wait.
 */

const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
/** One Ctrl-C arrives twice, from the terminal and from npm, which passes it on. */
const SAME_PRESS_MS = 500;

/**
 * Runs `main` and then ends the process. `main` registers what to stop with `onStop`; the last one
 * is stopped first, when `main` returns or throws, or when a signal arrives. The exit code is the
 * result of `main`, 1 after an error, which `report` prints, or 128 + n after a signal.
 */
export async function runScript(
  main: (onStop: (stop: () => Promise<void>) => void) => Promise<number>,
  report = (error: unknown) => console.error(message(error)),
): Promise<never> {
  const stops: (() => Promise<void>)[] = [];
  let interrupted: number | null = null;
  let interruptedAt = 0;
  const stopAll = async () => {
    for (const stop of stops.splice(0).toReversed()) {
      try {
        await stop();
      } catch (error) {
        console.error(`While stopping: ${message(error)}`);
      }
    }
  };
  for (const [signal, code] of Object.entries(SIGNALS)) {
    process.on(signal, () => {
      // Exit hooks kill anvil and workerd, so that nothing keeps running.
      if (interrupted !== null) {
        if (performance.now() - interruptedAt > SAME_PRESS_MS) process.exit(code);
        return;
      }
      interrupted = code;
      interruptedAt = performance.now();
      console.error(`\n${signal}: stopping (once more to force)`);
      void stopAll().then(() => {
        console.error("stopped");
        process.exit(code);
      });
    });
  }
  let code: number;
  try {
    code = await main((stop) => stops.push(stop));
  } catch (error) {
    // An error while everything is being stopped is a consequence of that.
    if (interrupted === null) report(error);
    code = 1;
  }
  if (interrupted !== null) return new Promise<never>(() => {});
  await stopAll();
  process.exit(code);
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
