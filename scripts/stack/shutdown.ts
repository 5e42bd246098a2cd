/** A Ctrl-C ends what a script started; a second one does not wait for it. */

const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
/** npm passes on a Ctrl-C that the terminal has sent to the whole group: one press comes twice. */
const SAME_PRESS_MS = 500;

/**
 * Runs `main`, whose `onStop` takes what must be ended, last one first; ends it all when `main` returns, throws or a
 * signal comes, and then ends the process. Its exit code is `main`'s, 1 after an error, 128 + n after a signal.
 */
export async function runScript(
  main: (onStop: (stop: () => Promise<void>) => void) => Promise<number>,
): Promise<never> {
  const stops: (() => Promise<void>)[] = [];
  let interrupted: number | null = null;
  let interruptedAt = 0;
  const stopAll = async () => {
    for (const stop of stops.splice(0).reverse()) {
      try {
        await stop();
      } catch (error) {
        console.error(`While stopping: ${message(error)}`);
      }
    }
  };
  for (const [signal, code] of Object.entries(SIGNALS)) {
    process.on(signal, () => {
      // Children die with the process (anvil's and workerd's exit hooks), so this is forceful but leaves nothing.
      if (interrupted !== null) {
        if (performance.now() - interruptedAt > SAME_PRESS_MS) process.exit(code);
        return;
      }
      interrupted = code;
      interruptedAt = performance.now();
      console.error(`\n${signal}: stopping (once more to force)`);
      void stopAll().then(() => process.exit(code));
    });
  }
  let code: number;
  try {
    code = await main((stop) => stops.push(stop));
  } catch (error) {
    // What fails because it was being stopped is no failure of its own.
    if (interrupted === null) console.error(message(error));
    code = 1;
  }
  if (interrupted !== null) return new Promise<never>(() => {});
  await stopAll();
  process.exit(code);
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
