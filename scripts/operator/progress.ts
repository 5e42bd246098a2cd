/** A line on stderr for whoever waits, so that silence never means that nothing happens. */
const FIRST_MS = 2_000;
const NEXT_MS = 10_000;

/** Answers how to end it. */
export function tellWhenSlow(name: string): () => void {
  const start = performance.now();
  const tell = () => {
    console.error(
      `${name}: still at work after ${Math.round((performance.now() - start) / 1_000)} s`,
    );
    timer = setTimeout(tell, NEXT_MS);
  };
  let timer = setTimeout(tell, FIRST_MS);
  return () => clearTimeout(timer);
}
