// A document with as much of a browser as the script of the page needs. The script follows this
// file, and then the steps of a test, which end with finish().
'use strict';
class Element {
	constructor(tag) {
		Object.assign(this, {tag, children: [], attributes: {}, dataset: {}, listeners: {}, own: '', parent: null, className: '', title: '', hidden: false, value: ''});
	}
	get textContent() { return this.own + this.children.map(c => c.textContent).join(' '); }
	set textContent(text) {
		if (typeof text !== 'string') throw new Error('the text of ' + this.tag + ' is ' + text);
		this.own = text;
		this.children = [];
	}
	append(e) { e.parent = this; this.children.push(e); }
	remove() { this.parent.children = this.parent.children.filter(c => c !== this); }
	get firstElementChild() { return this.children[0] || null; }
	get lastElementChild() { return this.children[this.children.length - 1] || null; }
	get rows() { return this.children.filter(c => c.tag === 'tr'); }
	get cells() { return this.children.filter(c => c.tag === 'td' || c.tag === 'th'); }
	get tHead() { return this.children.find(c => c.tag === 'thead') || null; }
	get tBodies() { return this.children.filter(c => c.tag === 'tbody'); }
	all(found = []) {
		for (const c of this.children) found.push(c) && c.all(found);
		return found;
	}
	querySelector(tag) { return this.all().find(c => c.tag === tag) || null; }
	getAttribute(name) { return name in this.attributes ? this.attributes[name] : null; }
	setAttribute(name, value) { this.attributes[name] = value; }
	addEventListener(name, f) { this.listeners[name] = f; }
	focus() { document.focused = this; }
	scrollIntoView() {}
}
const body = new Element('body');
for (const [tag, id] of elements) body.append(Object.assign(new Element(tag), {id}));
body.children.find(c => c.id === 'list').append(new Element('h2'));
const document = {
	title: 'Operator', body,
	createElement: tag => new Element(tag),
	getElementById: id => body.all().find(e => e.id === id) || null,
};
let hash = '';
const location = {get hash() { return hash; }, set hash(h) { hash = h && h[0] !== '#' ? '#' + h : h; onhash && onhash(); }};
let onhash = null;
const addEventListener = (name, f) => { if (name === 'hashchange') onhash = f; };
const setTimeout = () => {}; // no other attempt
process.on('unhandledRejection', err => { console.log('thrown: ' + err.stack); process.exit(0); });
const fetched = [];
let answers = {};
async function fetch(url) {
	fetched.push(url);
	const key = Object.keys(answers).find(k => url.startsWith(k));
	const [status, value] = key ? answers[key] : [404, null];
	return {
		ok: status === 200, status, text: async () => status + ': refused', json: async () => value,
		body: {pipeThrough: () => ({getReader: () => ({read: async () => ({done: true})})})},
	};
}
const TextDecoderStream = class {};
const settle = async () => { for (let i = 0; i < 50; i++) await null; };
const look = id => document.getElementById(id);
// rows returns the cells of a table, each with its text, its class and its title.
const rows = t => t.tBodies[0] ? t.tBodies[0].rows.map(r => r.cells.map(c => ({text: c.textContent, look: c.className, title: c.title}))) : [];
