/** The amounts of a block, so that a filter on amounts opens only blocks with one that fits. */

/** In base 36, whose digits have the order of texts: 10 000 assets, and amounts up to 2^62. */
const [ASSET_DIGITS, AMOUNT_DIGITS] = [3, 12];
const WIDTH = ASSET_DIGITS + AMOUNT_DIGITS;

function keyOf(asset: number, amount: bigint): string {
  const digits = amount.toString(36).padStart(AMOUNT_DIGITS, "0");
  return asset.toString(36).padStart(ASSET_DIGITS, "0") + digits;
}

/** The different amounts of each of the assets, sorted. */
export function listAmounts(
  assets: readonly string[],
  transfers: readonly { readonly asset: string; readonly amount: bigint }[],
): string {
  const places = new Map(assets.map((asset, place) => [asset, place]));
  const keys = transfers.map(({ asset, amount }) => keyOf(places.get(asset) ?? 0, amount));
  return [...new Set(keys)].toSorted().join("");
}

/** Whether one of these places of assets has an amount within the bounds. */
export function hasAmount(
  amounts: string,
  assets: readonly number[],
  { least, most }: { readonly least: bigint; readonly most: bigint },
): boolean {
  if (least > most) return false;
  return assets.some((asset) => {
    const [from, to] = [keyOf(asset, least), keyOf(asset, most)];
    const at = (place: number) => amounts.slice(place * WIDTH, (place + 1) * WIDTH);
    let [low, high] = [0, amounts.length / WIDTH];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (at(middle) < from) low = middle + 1;
      else high = middle;
    }
    return at(low) !== "" && at(low) <= to;
  });
}
