import { hrefTo } from './router.ts';

export function Brand() {
  return (
    <a className="brand" href={hrefTo('overview')}>
      <img src="/dashboard/icon.svg" alt="" width={26} height={26} />
      <span>Covey</span>
    </a>
  );
}
