import { useSyncExternalStore } from "react";

/** The parts of the address after `#`: the page's name, then what it shows. */
export function useRoute(): readonly string[] {
  const hash = useSyncExternalStore(subscribe, () => location.hash.slice(1));
  return hash.split("/").map(decoded);
}

/** The address of a market's page. */
export function marketHref({ venue_id, asset_id }: { venue_id: string; asset_id: string }): string {
  return `#market/${encodeURIComponent(venue_id)}/${asset_id}`;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function subscribe(changed: () => void): () => void {
  addEventListener("hashchange", changed);
  return () => removeEventListener("hashchange", changed);
}
