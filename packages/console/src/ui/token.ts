/** The colour of a token of style.css in the present theme, for what draws on a canvas. */
export function colorOf(target: HTMLElement, token: `--${string}`): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${token})`;
  target.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
