//! What a program gets so that the engine can stop it and say where. The engine looks at the clock at every 10,000th
//! turn of a loop or call, which is far too seldom where each turn compares huge texts or fills the heap; and where it
//! stops a loop that calls nothing, it would name the last place before at which something was called.
//!
//! A tick, `__left-- || (__left = __tick())`, counts down to the next look of the host's `__tick` at clock and heap,
//! which gives how many ticks may go by after it: many while they are quick, none while they take long. One stands
//! - in each loop, and at the beginning of each function that does more than pass on what it has;
//! - before `*`, `/`, `%` and `**`, where both operands may be BigInts, and before `...` of what may have many members;
//! - before each so-manieth expression that makes something: between two looks the heap grows by little.
//!
//! What `...` goes through item by item passes through `__tick` as well, which slows down what is long.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of nodes only a few matter here")]

use oxc::allocator::{Allocator, ArenaVec, TakeIn};
use oxc::ast::ast::{
    Argument, ArrowFunctionBody, AssignmentOperator, AssignmentTarget, BinaryOperator, Expression, FunctionBody,
    LogicalOperator, ObjectPropertyKind, Program, SimpleAssignmentTarget, SpreadElement, Statement, UnaryOperator,
    UpdateOperator,
};
use oxc::ast::builder::AstBuilder;
use oxc::ast_visit::{Visit, VisitMut, walk, walk_mut};
use oxc::span::{GetSpan, SPAN, Span};

use super::compile::Names;

/// Expressions in a row that make something, until one of them gets a tick: an object weighs one.
const ROW: u32 = 256;
/// What a sum of texts weighs: the engine copies up to 16 KiB for it at once.
const SUM: u32 = 8;

/// Puts the ticks in; gives whether there are any.
pub(super) fn mark<'a>(allocator: &'a Allocator, program: &mut Program<'a>, names: &Names) -> bool {
    let (left, tick) = (allocator.alloc_str(&names.left), allocator.alloc_str(&names.tick));
    let mut marker = Marker { ast: AstBuilder::new(allocator), allocator, left, tick, ticks: false, made: 0 };
    marker.visit_program(program);
    marker.ticks
}

struct Marker<'a> {
    ast: AstBuilder<'a>,
    allocator: &'a Allocator,
    left: &'a str,
    tick: &'a str,
    ticks: bool,
    /// The weight of what is made between the last such tick and here.
    made: u32,
}

impl<'a> Marker<'a> {
    /// `__left-- || (__left = __tick())`; a run that is stopped by it is told to have been at `place`.
    fn tick(&mut self, place: Span) -> Expression<'a> {
        self.ticks = true;
        let ast = &self.ast;
        let target = |at| SimpleAssignmentTarget::new_assignment_target_identifier(at, self.left, ast);
        // The printer leaves a place out that is the same as the last one: another one stands between.
        let other = Span::new(place.end.saturating_sub(1), place.end);
        let spend = Expression::new_update_expression(SPAN, UpdateOperator::Decrement, false, target(other), ast);
        // An empty span would count as none.
        let place = Span::new(place.start, place.start + 1);
        let callee = Expression::new_identifier(place, self.tick, ast);
        let more = Expression::new_call_expression(place, callee, None, [], false, ast);
        let assign = AssignmentOperator::Assign;
        let refill =
            Expression::new_assignment_expression(SPAN, assign, AssignmentTarget::from(target(SPAN)), more, ast);
        Expression::new_logical_expression(SPAN, spend, LogicalOperator::Or, refill, ast)
    }

    fn count(&mut self, it: &mut Expression<'a>) {
        let operation = it.take_in(&self.allocator);
        let tick = self.tick(operation.span());
        *it = Expression::new_sequence_expression(operation.span(), [tick, operation], &self.ast);
    }

    fn tick_statement(&mut self, place: Span) -> Statement<'a> {
        let tick = self.tick(place);
        Statement::new_expression_statement(SPAN, tick, &self.ast)
    }

    /// `{ tick; body }`
    fn each_turn(&mut self, place: Span, body: &mut Statement<'a>) {
        let tick = self.tick_statement(place);
        if let Statement::BlockStatement(block) = body {
            block.body.insert(0, tick);
            return;
        }
        let mut both = ArenaVec::with_capacity_in(2, &self.allocator);
        both.extend([tick, body.take_in(&self.allocator)]);
        *body = Statement::new_block_statement(SPAN, both, &self.ast);
    }
}

fn is_constant(expression: &Expression<'_>) -> bool {
    match expression {
        Expression::NumericLiteral(_)
        | Expression::StringLiteral(_)
        | Expression::BooleanLiteral(_)
        | Expression::NullLiteral(_) => true,
        Expression::Identifier(it) => it.name == "undefined",
        Expression::UnaryExpression(it) => it.operator == UnaryOperator::Typeof || is_constant(&it.argument),
        _ => false,
    }
}

/// A number's literal as one of the operands rules BigInts out.
fn may_be_huge(operator: BinaryOperator, left: &Expression<'_>, right: &Expression<'_>) -> bool {
    matches!(
        operator,
        BinaryOperator::Multiplication
            | BinaryOperator::Division
            | BinaryOperator::Remainder
            | BinaryOperator::Exponential
    ) && !matches!(left, Expression::NumericLiteral(_))
        && !matches!(right, Expression::NumericLiteral(_))
}

/// The weight of what this expression itself makes.
fn makes(expression: &Expression<'_>) -> u32 {
    match expression {
        Expression::ArrayExpression(_)
        | Expression::ObjectExpression(_)
        | Expression::FunctionExpression(_)
        | Expression::ArrowFunctionExpression(_)
        | Expression::RegExpLiteral(_)
        | Expression::CallExpression(_)
        | Expression::NewExpression(_)
        | Expression::TaggedTemplateExpression(_) => 1,
        Expression::ClassExpression(_) => SUM,
        Expression::TemplateLiteral(it) if !it.expressions.is_empty() => SUM,
        Expression::BinaryExpression(it) if it.operator == BinaryOperator::Addition => SUM,
        Expression::AssignmentExpression(it) if it.operator == AssignmentOperator::Addition => SUM,
        _ => 0,
    }
}

/// Whether a function's own code does something that can take long or makes anything.
struct Toils(bool);

impl<'a> Visit<'a> for Toils {
    fn visit_expression(&mut self, it: &Expression<'a>) {
        self.0 |= match it {
            // What is called has its own tick, or is a built-in that looks for itself.
            Expression::CallExpression(_) => false,
            Expression::BinaryExpression(it) => !is_constant(&it.left) && !is_constant(&it.right),
            Expression::AssignmentExpression(it) => it.operator != AssignmentOperator::Assign,
            Expression::UnaryExpression(it) => matches!(
                it.operator,
                UnaryOperator::UnaryPlus | UnaryOperator::UnaryNegation | UnaryOperator::BitwiseNot
            ),
            it => makes(it) > 0,
        };
        match it {
            Expression::FunctionExpression(_)
            | Expression::ArrowFunctionExpression(_)
            | Expression::ClassExpression(_) => {}
            _ if self.0 => {}
            it => walk::walk_expression(self, it),
        }
    }

    fn visit_statement(&mut self, it: &Statement<'a>) {
        self.0 |= matches!(it, Statement::FunctionDeclaration(_) | Statement::ClassDeclaration(_));
        if !self.0 {
            walk::walk_statement(self, it);
        }
    }
}

impl<'a> VisitMut<'a> for Marker<'a> {
    fn visit_expression(&mut self, it: &mut Expression<'a>) {
        let weight = makes(it);
        walk_mut::walk_expression(self, it);
        let heavy = match it {
            Expression::BinaryExpression(it) => may_be_huge(it.operator, &it.left, &it.right),
            Expression::AssignmentExpression(it) => {
                it.operator.to_binary_operator().is_some_and(|operator| may_be_huge(operator, &it.right, &it.right))
            }
            _ => false,
        };
        self.made += weight;
        // Not a call: in `a?.f().x` a missing `a` ends all of it.
        let row = self.made >= ROW && weight > 0 && !matches!(it, Expression::CallExpression(_));
        if row {
            self.made = 0;
        }
        if heavy || row {
            self.count(it);
        }
    }

    // Not the call around it, for the same reason.
    fn visit_spread_element(&mut self, it: &mut SpreadElement<'a>) {
        walk_mut::walk_spread_element(self, it);
        self.ticks = true;
        let operand = it.argument.take_in(&self.allocator);
        let place = operand.span();
        let callee = Expression::new_identifier(place, self.tick, &self.ast);
        it.argument = Expression::new_call_expression(place, callee, None, [Argument::from(operand)], false, &self.ast);
    }

    fn visit_object_property_kind(&mut self, it: &mut ObjectPropertyKind<'a>) {
        match it {
            ObjectPropertyKind::SpreadProperty(it) => {
                walk_mut::walk_spread_element(self, it);
                self.count(&mut it.argument);
            }
            ObjectPropertyKind::ObjectProperty(it) => walk_mut::walk_object_property(self, it),
        }
    }

    fn visit_function_body(&mut self, it: &mut FunctionBody<'a>) {
        let mut toils = Toils(false);
        toils.visit_function_body(it);
        walk_mut::walk_function_body(self, it);
        if toils.0 {
            let tick = self.tick_statement(it.span);
            it.statements.insert(0, tick);
        }
    }

    fn visit_arrow_function_body(&mut self, it: &mut ArrowFunctionBody<'a>) {
        let Some(expression) = it.as_expression_mut() else { return walk_mut::walk_arrow_function_body(self, it) };
        let mut toils = Toils(false);
        toils.visit_expression(expression);
        self.visit_expression(expression);
        if toils.0 {
            self.count(expression);
        }
    }

    fn visit_statement(&mut self, it: &mut Statement<'a>) {
        walk_mut::walk_statement(self, it);
        let place = it.span();
        match it {
            Statement::WhileStatement(it) => self.each_turn(place, &mut it.body),
            Statement::DoWhileStatement(it) => self.each_turn(place, &mut it.body),
            Statement::ForStatement(it) => self.each_turn(place, &mut it.body),
            Statement::ForInStatement(it) => self.each_turn(place, &mut it.body),
            Statement::ForOfStatement(it) => self.each_turn(place, &mut it.body),
            _ => {}
        }
    }
}
